#include "tensor/cpu_primitives.hpp"

#include "kernels/attention.hpp"
#include "kernels/linear.hpp"
#include "kernels/packed_matrix.hpp"
#include "tensor/cpu_scalar.hpp"

namespace muster::tensor {
namespace {

kernels::PackedMatrix packed(const Weight& weight) {
  return {static_cast<std::byte*>(weight.storage.mutable_data_ptr()), weight.outputs, weight.inputs,
          scalar_of(weight.type)};
}

kernels::AttentionShape kernel_shape(const AttentionShape& shape) {
  return {shape.heads, shape.kv_heads, shape.head_size, static_cast<float>(shape.scale), shape.window};
}

// Where each block of one sequence begins.
struct BlockPointers {
  std::vector<const void*> keys, values;
};

BlockPointers pointers_of(const KeyValues& stored) {
  BlockPointers pointers;
  const auto block_bytes = static_cast<std::ptrdiff_t>(stored.keys.nbytes()) / stored.keys.size(0);
  const auto* keys = static_cast<const std::byte*>(stored.keys.const_data_ptr());
  const auto* values = static_cast<const std::byte*>(stored.values.const_data_ptr());
  for (const std::int64_t block : stored.blocks) {
    pointers.keys.push_back(keys + block * block_bytes);
    pointers.values.push_back(values + block * block_bytes);
  }
  return pointers;
}

class CpuPrimitives final : public Primitives {
 public:
  explicit CpuPrimitives(std::shared_ptr<kernels::ThreadTeam> team) : team_(std::move(team)) {}

  Weight new_weight(std::int64_t outputs, std::int64_t inputs, at::ScalarType type) override {
    const std::size_t bytes = kernels::PackedMatrix::bytes_needed(outputs, inputs, scalar_of(type));
    return {outputs, inputs, type, at::empty({static_cast<std::int64_t>(bytes)}, at::kByte)};
  }

  // Several threads fill weights at once, so that each is its own team.
  void fill_rows(Weight& weight, std::int64_t first_row, const at::Tensor& rows) override {
    kernels::ThreadTeam alone(1);
    packed(weight).pack_rows(alone, first_row, rows.size(0), rows.const_data_ptr(), scalar_of(rows));
  }

  at::Tensor take_rows(const Weight& weight, std::span<const std::int64_t> indices) override {
    at::Tensor taken = at::empty({static_cast<std::int64_t>(indices.size()), weight.inputs}, weight.type);
    auto* out = static_cast<std::byte*>(taken.mutable_data_ptr());
    const auto row_bytes = static_cast<std::ptrdiff_t>(c10::elementSize(weight.type)) * weight.inputs;
    const kernels::PackedMatrix matrix = packed(weight);
    for (const std::int64_t row : indices) {
      matrix.copy_row(row, out, scalar_of(weight.type));
      out += row_bytes;
    }
    return taken;
  }

  at::Tensor linear(const Weight& weight, const at::Tensor& bias, const at::Tensor& input) override {
    const at::Tensor rows = input.contiguous();
    const at::Tensor added = bias.defined() ? bias.to(at::kFloat) : bias;
    at::Tensor output = at::empty({rows.size(0), weight.outputs}, rows.options());
    kernels::linear(*team_, packed(weight), rows.const_data_ptr(), scalar_of(rows), rows.size(0),
                    added.defined() ? added.const_data_ptr<float>() : nullptr, output.mutable_data_ptr());
    return output;
  }

  LinearGradient linear_gradient(const Weight& weight, bool has_bias, const at::Tensor& input,
                                 const at::Tensor& output_gradient) override;
  at::Tensor attention(const AttentionShape& shape, const at::Tensor& queries,
                       std::span<const AttentionSequence> sequences, at::Tensor* log_sums) override;
  AttentionGradient attention_gradient(const AttentionShape& shape, const at::Tensor& queries,
                                       std::span<const AttentionSequence> sequences, const at::Tensor& output,
                                       const at::Tensor& log_sums, const at::Tensor& output_gradient) override;

 private:
  std::shared_ptr<kernels::ThreadTeam> team_;
};

LinearGradient CpuPrimitives::linear_gradient(const Weight& weight, bool has_bias, const at::Tensor& input,
                                              const at::Tensor& output_gradient) {
  constexpr auto replace = kernels::Accumulate::replace;
  const at::Tensor rows = input.contiguous(), from = output_gradient.contiguous();
  const std::int64_t count = rows.size(0);
  LinearGradient gradient;
  gradient.input = at::empty_like(rows);
  kernels::linear_input_gradient(*team_, packed(weight), from.const_data_ptr(), scalar_of(from), count,
                                 gradient.input.mutable_data_ptr());
  gradient.weight = at::empty({weight.outputs, weight.inputs}, at::kFloat);
  kernels::linear_weight_gradient(*team_, from.const_data_ptr(), rows.const_data_ptr(), scalar_of(rows), count,
                                  weight.outputs, weight.inputs, gradient.weight.mutable_data_ptr<float>(), replace);
  if (!has_bias) return gradient;
  gradient.bias = at::empty({weight.outputs}, at::kFloat);
  kernels::linear_bias_gradient(*team_, from.const_data_ptr(), scalar_of(from), count, weight.outputs,
                                gradient.bias.mutable_data_ptr<float>(), replace);
  return gradient;
}

// log_sums: [heads, rows] of each sequence, one after another.
at::Tensor CpuPrimitives::attention(const AttentionShape& shape, const at::Tensor& queries,
                                    std::span<const AttentionSequence> sequences, at::Tensor* log_sums) {
  const at::Tensor rows = queries.contiguous();
  at::Tensor output = at::empty_like(rows);
  if (log_sums != nullptr) *log_sums = at::empty({rows.size(0) * shape.heads}, at::kFloat);
  const auto row_bytes = static_cast<std::ptrdiff_t>(rows.element_size()) * shape.heads * shape.head_size;
  std::vector<BlockPointers> pointers;
  for (const AttentionSequence& sequence : sequences) pointers.push_back(pointers_of(sequence.key_values));
  std::vector<kernels::AttentionSequence> jobs;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const AttentionSequence& sequence = sequences[i];
    kernels::AttentionSequence job;
    job.queries = static_cast<const std::byte*>(rows.const_data_ptr()) + sequence.first_row * row_bytes;
    job.output = static_cast<std::byte*>(output.mutable_data_ptr()) + sequence.first_row * row_bytes;
    job.rows = sequence.rows;
    job.position = sequence.position;
    job.cache = {sequence.key_values.keys.size(1), pointers[i].keys.data(), pointers[i].values.data(),
                 shape.kv_heads * shape.head_size};
    if (log_sums != nullptr) job.log_sum = log_sums->mutable_data_ptr<float>() + sequence.first_row * shape.heads;
    jobs.push_back(job);
  }
  kernels::attention(*team_, kernel_shape(shape), scalar_of(rows), jobs);
  return output;
}

AttentionGradient CpuPrimitives::attention_gradient(const AttentionShape& shape, const at::Tensor& queries,
                                                    std::span<const AttentionSequence> sequences,
                                                    const at::Tensor& output, const at::Tensor& log_sums,
                                                    const at::Tensor& output_gradient) {
  const at::Tensor rows = queries.contiguous(), out = output.contiguous(), from = output_gradient.contiguous();
  const std::int64_t query_width = shape.heads * shape.head_size, kv_width = shape.kv_heads * shape.head_size;
  AttentionGradient gradient{at::empty_like(rows), at::empty({rows.size(0), kv_width}, rows.options()),
                             at::empty({rows.size(0), kv_width}, rows.options())};
  const auto element = static_cast<std::ptrdiff_t>(rows.element_size());
  const auto read = [&](const at::Tensor& tensor, std::int64_t row, std::int64_t width) {
    return static_cast<const std::byte*>(tensor.const_data_ptr()) + row * width * element;
  };
  const auto write = [&](at::Tensor& tensor, std::int64_t row, std::int64_t width) {
    return static_cast<std::byte*>(tensor.mutable_data_ptr()) + row * width * element;
  };
  std::vector<kernels::AttentionGradient> jobs;
  for (const AttentionSequence& sequence : sequences) {
    const std::int64_t row = sequence.first_row;
    kernels::AttentionGradient job;
    job.queries = read(rows, row, query_width);
    job.keys = sequence.key_values.keys.const_data_ptr();
    job.values = sequence.key_values.values.const_data_ptr();
    job.output = read(out, row, query_width);
    job.log_sum = log_sums.const_data_ptr<float>() + row * shape.heads;
    job.output_gradient = read(from, row, query_width);
    job.query_gradient = write(gradient.queries, row, query_width);
    job.key_gradient = write(gradient.keys, row, kv_width);
    job.value_gradient = write(gradient.values, row, kv_width);
    job.rows = sequence.rows;
    jobs.push_back(job);
  }
  kernels::attention_gradient(*team_, kernel_shape(shape), scalar_of(rows), jobs);
  return gradient;
}

}  // namespace

std::unique_ptr<Primitives> make_cpu_primitives(std::shared_ptr<kernels::ThreadTeam> team) {
  return std::make_unique<CpuPrimitives>(std::move(team));
}

}  // namespace muster::tensor
