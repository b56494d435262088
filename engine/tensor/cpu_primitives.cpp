#include "tensor/cpu_primitives.hpp"

#include <stdexcept>

#include "kernels/attention.hpp"
#include "kernels/linear.hpp"
#include "kernels/packed_matrix.hpp"
#include "tensor/cpu_packed_weight.hpp"
#include "tensor/cpu_scalar.hpp"

namespace muster::tensor {
namespace {

kernels::PackedMatrix plain_matrix(const Weight& weight) {
  return {static_cast<std::byte*>(weight.storage.mutable_data_ptr()), weight.outputs, weight.inputs,
          scalar_of(weight.stored)};
}

// use(the matrix as kernels see it)
template <class Use>
void with_matrix(const Weight& weight, Use&& use) {
  if (weight.packing) return use(coded_matrix(weight));
  use(plain_matrix(weight));
}

std::size_t bytes_of(std::int64_t outputs, std::int64_t inputs, const WeightForm& form) {
  if (form.packing) return kernels::CodedMatrix::bytes_needed(outputs, inputs, coded_form(form.type, *form.packing));
  return kernels::PackedMatrix::bytes_needed(outputs, inputs, scalar_of(form.stored));
}

kernels::AttentionShape kernel_shape(const AttentionShape& shape) {
  return {shape.heads, shape.kv_heads, shape.head_size, static_cast<float>(shape.scale), shape.window};
}

const std::byte* row_of(const at::Tensor& rows, std::int64_t row) {
  return static_cast<const std::byte*>(rows.const_data_ptr()) + row * rows.stride(0) * rows.element_size();
}

// Where each block of one sequence begins. Rows of the batch are a block of their own.
struct BlockPointers {
  std::vector<const void*> keys, values;
};

BlockPointers pointers_of(const AttentionPart& part, const HeadRows& heads, const LayerCache& cache) {
  if (part.blocks.empty()) return {{row_of(heads.keys, part.first_row)}, {row_of(heads.values, part.first_row)}};
  BlockPointers pointers;
  for (const std::int64_t block : part.blocks) {
    pointers.keys.push_back(row_of(cache.keys, block));
    pointers.values.push_back(row_of(cache.values, block));
  }
  return pointers;
}

class CpuPrimitives final : public Primitives {
 public:
  explicit CpuPrimitives(std::shared_ptr<kernels::ThreadTeam> team) : team_(std::move(team)) {}

  bool has_form(const WeightForm& form) const override { return !form.packing || cpu_has_packing(*form.packing); }

  Weight new_weight(std::int64_t outputs, std::int64_t inputs, const WeightForm& form) override {
    if (!has_form(form)) throw std::logic_error("runs of a packed weight are a power of two from 32 to 4096 long");
    const auto bytes = static_cast<std::int64_t>(bytes_of(outputs, inputs, form));
    return {outputs, inputs, form.type, at::empty({bytes}, at::kByte), form.packing, form.stored};
  }

  // Several threads fill weights at once, so that each is its own team.
  void fill_rows(Weight& weight, std::int64_t first_row, const at::Tensor& rows) override {
    if (weight.packing) return fill_packed_rows(weight, first_row, rows);
    kernels::ThreadTeam alone(1);
    plain_matrix(weight).pack_rows(alone, first_row, rows.size(0), rows.const_data_ptr(), scalar_of(rows));
  }

  void fill_codes(Weight& weight, std::int64_t first_row, const WeightCodes& rows) override {
    if (!weight.packing) throw std::logic_error("codes for a plain weight");
    fill_packed_codes(weight, first_row, rows);
  }

  void round_scales(Weight& weight, std::int64_t first_row, std::int64_t rows) override {
    if (weight.packing) round_packed_scales(weight, first_row, rows);
  }

  at::Tensor take_rows(const Weight& weight, const at::Tensor& indices) override {
    at::Tensor taken = at::empty({indices.numel(), weight.inputs}, weight.type);
    auto* out = static_cast<std::byte*>(taken.mutable_data_ptr());
    const auto row_bytes = static_cast<std::ptrdiff_t>(c10::elementSize(weight.type)) * weight.inputs;
    const auto* rows = indices.const_data_ptr<std::int64_t>();
    with_matrix(weight, [&](const auto& matrix) {
      for (std::int64_t i = 0; i < indices.numel(); ++i) {
        if (rows[i] < 0 || rows[i] >= weight.outputs) throw std::out_of_range("a row that the weight does not have");
        matrix.copy_row(rows[i], out, scalar_of(weight.type));
        out += row_bytes;
      }
    });
    return taken;
  }

  at::Tensor numbers(const Weight& weight, std::int64_t first_row, std::int64_t rows) override {
    if (first_row < 0 || rows < 0 || first_row > weight.outputs - rows)
      throw std::out_of_range("rows that the weight does not have");
    at::Tensor taken = at::empty({rows, weight.inputs}, weight.type);
    auto* out = static_cast<std::byte*>(taken.mutable_data_ptr());
    const auto row_bytes = static_cast<std::ptrdiff_t>(c10::elementSize(weight.type)) * weight.inputs;
    with_matrix(weight, [&](const auto& matrix) {
      team_->split(rows, 16, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row)
          matrix.copy_row(first_row + row, out + row * row_bytes, scalar_of(weight.type));
      });
    });
    return taken;
  }

  at::Tensor linear(const Weight& weight, const at::Tensor& bias, const at::Tensor& input) override {
    at::Tensor output = new_output(input.size(0), weight.outputs, input.options());
    multiply(weight, bias, input, nullptr, output);
    return output;
  }

  void linear_add(const Weight& weight, const at::Tensor& bias, const at::Tensor& input, const at::Tensor& base,
                  at::Tensor& sum) override {
    if (input.scalar_type() == at::kFloat && sum.is_contiguous() && base.is_contiguous())
      return multiply(weight, bias, input, base.const_data_ptr<float>(), sum);
    at::add_out(sum, base, linear(weight, bias, input));
  }

  at::Tensor linear_input_gradient(const Weight& weight, const at::Tensor& output_gradient) override {
    const at::Tensor from = output_gradient.contiguous();
    at::Tensor gradient = at::empty({from.size(0), weight.inputs}, from.options());
    with_matrix(weight, [&](const auto& matrix) {
      kernels::linear_input_gradient(*team_, matrix, from.const_data_ptr(), scalar_of(from), from.size(0),
                                     gradient.mutable_data_ptr());
    });
    return gradient;
  }

  at::Tensor attention(const AttentionShape& shape, const AttentionTables& tables, const HeadRows& heads,
                       const LayerCache& cache, at::Tensor* log_sums) override;
  AttentionGradient attention_gradient(const AttentionShape& shape, const AttentionTables& tables,
                                       const HeadRows& heads, const at::Tensor& output, const at::Tensor& log_sums,
                                       const at::Tensor& output_gradient) override;

 private:
  // Logits of many rows are more than what the system's allocator keeps when it is freed, and each new page of them
  // costs a fault. So the memory of the last such output is reused for the next one where nobody else holds it.
  at::Tensor new_output(std::int64_t rows, std::int64_t columns, const at::TensorOptions& options) {
    constexpr std::int64_t large = std::int64_t{32} << 20;
    const at::ScalarType type = c10::typeMetaToScalarType(options.dtype());
    const std::int64_t count = rows * columns;
    if (count * static_cast<std::int64_t>(c10::elementSize(type)) < large) return at::empty({rows, columns}, options);
    const bool serves = spare_.defined() && spare_.storage().use_count() == 1 && spare_.scalar_type() == type &&
                        spare_.numel() >= count;
    if (!serves) spare_ = at::empty({count}, options);
    return spare_.narrow(0, 0, count).view({rows, columns});
  }

  void multiply(const Weight& weight, const at::Tensor& bias, const at::Tensor& input, const float* added,
                at::Tensor& output) {
    const at::Tensor rows = input.contiguous();
    const at::Tensor shift = bias.defined() ? bias.to(at::kFloat) : bias;
    with_matrix(weight, [&](const auto& matrix) {
      kernels::linear(*team_, matrix, rows.const_data_ptr(), scalar_of(rows), rows.size(0),
                      shift.defined() ? shift.const_data_ptr<float>() : nullptr, output.mutable_data_ptr(), added);
    });
  }

  std::shared_ptr<kernels::ThreadTeam> team_;
  at::Tensor spare_;  // flat
};

// log_sums: [heads, rows] of each sequence, one after another.
at::Tensor CpuPrimitives::attention(const AttentionShape& shape, const AttentionTables& tables, const HeadRows& heads,
                                    const LayerCache& cache, at::Tensor* log_sums) {
  const at::Tensor& rows = heads.queries;
  at::Tensor output = at::empty_like(rows);
  if (log_sums != nullptr) *log_sums = at::empty({rows.size(0) * shape.heads}, at::kFloat);
  const auto row_bytes = static_cast<std::ptrdiff_t>(rows.element_size()) * shape.heads * shape.head_size;
  std::vector<BlockPointers> pointers;
  for (const AttentionPart& part : tables.parts) pointers.push_back(pointers_of(part, heads, cache));
  std::vector<kernels::AttentionSequence> jobs;
  for (std::size_t i = 0; i < tables.parts.size(); ++i) {
    const AttentionPart& part = tables.parts[i];
    kernels::AttentionSequence job;
    job.queries = row_of(rows, part.first_row);
    job.output = static_cast<std::byte*>(output.mutable_data_ptr()) + part.first_row * row_bytes;
    job.rows = part.rows;
    job.position = part.position;
    job.cache = {part.blocks.empty() ? part.rows : tables.block_tokens, pointers[i].keys.data(),
                 pointers[i].values.data(), shape.kv_heads * shape.head_size};
    if (log_sums != nullptr) job.log_sum = log_sums->mutable_data_ptr<float>() + part.first_row * shape.heads;
    jobs.push_back(job);
  }
  kernels::attention(*team_, kernel_shape(shape), scalar_of(rows), jobs);
  return output;
}

AttentionGradient CpuPrimitives::attention_gradient(const AttentionShape& shape, const AttentionTables& tables,
                                                    const HeadRows& heads, const at::Tensor& output,
                                                    const at::Tensor& log_sums, const at::Tensor& output_gradient) {
  const at::Tensor &rows = heads.queries, out = output.contiguous(), from = output_gradient.contiguous();
  const std::int64_t query_width = shape.heads * shape.head_size, kv_width = shape.kv_heads * shape.head_size;
  const at::Tensor joined = at::empty({rows.size(0), query_width + 2 * kv_width}, rows.options());
  AttentionGradient gradient{joined.narrow(1, 0, query_width), joined.narrow(1, query_width, kv_width),
                             joined.narrow(1, query_width + kv_width, kv_width)};
  const auto element = static_cast<std::ptrdiff_t>(rows.element_size());
  const auto read = [&](const at::Tensor& tensor, std::int64_t row, std::int64_t width) {
    return static_cast<const std::byte*>(tensor.const_data_ptr()) + row * width * element;
  };
  const auto write = [&](at::Tensor& tensor, std::int64_t row) {
    return static_cast<std::byte*>(tensor.mutable_data_ptr()) + row * joined.size(1) * element;
  };
  std::vector<kernels::AttentionGradient> jobs;
  for (const AttentionPart& part : tables.parts) {
    const std::int64_t row = part.first_row;
    kernels::AttentionGradient job;
    job.queries = read(rows, row, query_width);
    job.keys = row_of(heads.keys, row);
    job.values = row_of(heads.values, row);
    job.output = read(out, row, query_width);
    job.log_sum = log_sums.const_data_ptr<float>() + row * shape.heads;
    job.output_gradient = read(from, row, query_width);
    job.query_gradient = write(gradient.queries, row);
    job.key_gradient = write(gradient.keys, row);
    job.value_gradient = write(gradient.values, row);
    job.rows = part.rows;
    job.gradient_stride = joined.size(1);
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
