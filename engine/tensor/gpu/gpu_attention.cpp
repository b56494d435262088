#include "tensor/gpu/gpu_attention.hpp"

#include <ATen/cuda/CUDAContext.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "tensor/gpu/gpu_scalar.hpp"

namespace muster::tensor {
namespace {

using cuda::DecodeTables;

// [1, kv_heads, length, head_size]: one sequence's keys or values, from a position on. rows: the batch's own.
at::Tensor gathered(const AttentionShape& shape, const AttentionPart& part, const at::Tensor& rows,
                    const at::Tensor& cached, std::int64_t first, std::int64_t length) {
  at::Tensor joined;  // [tokens, kv_heads, head_size]
  if (part.blocks.empty())
    joined = rows.narrow(0, part.first_row, part.rows).view({part.rows, shape.kv_heads, shape.head_size});
  else
    joined = cached.index_select(0, at::tensor(part.blocks, at::kLong).to(cached.device())).flatten(0, 1);
  return joined.narrow(0, first, length).transpose(0, 1).unsqueeze(0);
}

// Which keys a query may see: [rows, length]; undefined where the causal rule, or no rule at all, is enough.
at::Tensor visibility(const AttentionShape& shape, const AttentionPart& part, std::int64_t first, std::int64_t length,
                      at::Device device) {
  const bool slides = shape.window && *shape.window < part.position + part.rows;
  if (part.rows == 1) return {};
  if (part.position == 0 && !slides) return {};
  const auto options = at::TensorOptions().dtype(at::kLong).device(device);
  const at::Tensor query = at::arange(part.position, part.position + part.rows, options).unsqueeze(1);
  const at::Tensor key = at::arange(first, first + length, options).unsqueeze(0);
  const at::Tensor causal = key <= query;
  return slides ? at::logical_and(causal, key > query - *shape.window) : causal;
}

// queries: [1, heads, rows, head_size].
at::Tensor attend(const AttentionShape& shape, const AttentionPart& part, const at::Tensor& queries,
                  const at::Tensor& keys, const at::Tensor& values, std::int64_t first) {
  const at::Tensor mask = visibility(shape, part, first, keys.size(2), queries.device());
  const bool causal = !mask.defined() && part.rows > 1;
  return at::scaled_dot_product_attention(queries, keys, values, mask.defined() ? std::optional(mask) : std::nullopt,
                                          0.0, causal, shape.scale, shape.heads != shape.kv_heads);
}

// The first key that any query of the sequence sees.
std::int64_t first_key(const AttentionShape& shape, const AttentionPart& part) {
  if (!shape.window) return 0;
  return std::max<std::int64_t>(0, part.position - *shape.window + 1);
}

at::Tensor heads_of(const at::Tensor& rows, std::int64_t heads, std::int64_t size) {
  return rows.view({1, rows.size(0), heads, size}).transpose(1, 2);
}

at::Tensor rows_of(const at::Tensor& heads) { return heads.transpose(1, 2).reshape({heads.size(2), -1}); }

// One part by itself.
void library_part(const AttentionShape& shape, const AttentionPart& part, const HeadRows& heads,
                  const LayerCache& cache, at::Tensor& output) {
  const std::int64_t first = first_key(shape, part);
  const std::int64_t length = part.position + part.rows - first;
  const at::Tensor own = heads.queries.narrow(0, part.first_row, part.rows);
  const at::Tensor attended = attend(shape, part, heads_of(own, shape.heads, shape.head_size),
                                     gathered(shape, part, heads.keys, cache.keys, first, length),
                                     gathered(shape, part, heads.values, cache.values, first, length), first);
  output.narrow(0, part.first_row, part.rows).copy_(rows_of(attended));
}

// How far a query sees to either side, where there is a window.
std::optional<std::int64_t> window_before(const AttentionShape& shape) {
  return shape.window ? std::optional(*shape.window - 1) : std::nullopt;
}
std::optional<std::int64_t> window_after(const AttentionShape& shape) {
  return shape.window ? std::optional<std::int64_t>(0) : std::nullopt;
}

cuda::AttentionShape kernel_shape(const AttentionShape& shape) {
  return {shape.heads, shape.kv_heads, shape.head_size, shape.window.value_or(0), static_cast<float>(shape.scale)};
}

}  // namespace

// Torch's packed kernels: half precision, heads of at most 256 in steps of 8.
bool GpuAttention::has_packed(const AttentionShape& shape, at::ScalarType type) const {
  constexpr int first_with_packed = 8;  // Ampere
  return attention_ != spec::Attention::eager && type != at::kFloat && shape.head_size % 8 == 0 && shape.head_size <= 256 &&
         at::cuda::getCurrentDeviceProperties()->major >= first_with_packed;
}

bool GpuAttention::has_single(const AttentionShape& shape) const {
  return shape.head_size % 8 == 0 && shape.head_size <= 256;
}

void GpuAttention::single_rows(const AttentionShape& shape, const AttentionTables& tables, const HeadRows& heads,
                               const LayerCache& cache, at::Tensor& output) {
  const cuda::AttentionShape kernel = kernel_shape(shape);
  const DecodeTables decode{tables.single_rows.const_data_ptr<std::int64_t>(),
                            tables.positions.const_data_ptr<std::int64_t>(),
                            tables.single_blocks.const_data_ptr<std::int64_t>(),
                            tables.single_rows.numel(),
                            tables.single_blocks.size(1),
                            tables.block_tokens,
                            cache.keys.const_data_ptr(),
                            cache.values.const_data_ptr()};
  const std::int64_t counters = cuda::decode_counters(kernel, decode);
  if (counters_.empty() || counters_.back().numel() < counters)
    counters_.push_back(
        at::zeros({std::max<std::int64_t>(counters, 1 << 16)}, heads.queries.options().dtype(at::kInt)));
  at::Tensor scratch = at::empty({cuda::decode_scratch(kernel, decode)}, heads.queries.options().dtype(at::kFloat));
  check_launch(cuda::decode_attention(current_stream(output), scalar_of(output), kernel, decode,
                                      heads.queries.const_data_ptr(), scratch.mutable_data_ptr<float>(),
                                      static_cast<unsigned*>(counters_.back().mutable_data_ptr()),
                                      output.mutable_data_ptr()));
}

at::Tensor GpuAttention::begins_of(const std::vector<AttentionPart>& parts, at::Device device) {
  std::vector<std::int32_t> begins{0};
  for (const AttentionPart& part : parts) begins.push_back(begins.back() + static_cast<std::int32_t>(part.rows));
  if (!begins_.defined() || begins != known_begins_) {
    begins_ = at::tensor(begins, at::kInt).to(device);
    known_begins_ = std::move(begins);
  }
  return begins_;
}

void GpuAttention::packed_parts(const AttentionShape& shape, const std::vector<AttentionPart>& parts,
                                const HeadRows& heads, at::Tensor& output, at::Tensor* log_sums) {
  std::int64_t longest = 0, rows = 0;
  for (const AttentionPart& part : parts) {
    longest = std::max(longest, part.rows);
    rows += part.rows;
  }
  const bool whole = rows == heads.queries.size(0);
  const auto together = [&](const at::Tensor& all, std::int64_t count) {
    std::vector<at::Tensor> some;
    if (!whole)
      for (const AttentionPart& part : parts) some.push_back(all.narrow(0, part.first_row, part.rows));
    return (whole ? all : at::cat(some)).view({-1, count, shape.head_size});
  };
  const at::Tensor begins = begins_of(parts, heads.queries.device());
  const auto found =
      at::_flash_attention_forward(together(heads.queries, shape.heads), together(heads.keys, shape.kv_heads),
                                   together(heads.values, shape.kv_heads), begins, begins, longest, longest, 0.0, true,
                                   false, shape.scale, window_before(shape), window_after(shape));
  const at::Tensor attended = std::get<0>(found).view({-1, shape.heads * shape.head_size});
  if (whole) {
    output = attended;
    if (log_sums != nullptr) *log_sums = std::get<1>(found);
    return;
  }
  std::int64_t first = 0;
  for (const AttentionPart& part : parts) {
    output.narrow(0, part.first_row, part.rows).copy_(attended.narrow(0, first, part.rows));
    first += part.rows;
  }
}

bool GpuAttention::cudnn_takes(const AttentionShape& shape, const std::vector<AttentionPart>& parts,
                               const at::Tensor& queries) {
  constexpr int hopper = 9;
  constexpr std::int64_t fewest_rows = 128;  // of a sequence
  constexpr int most_layouts = 8;
  constexpr int often = 256;  // calls, one for each layer
  const std::int64_t rows = parts.front().rows;
  if (cudnn_refuses_ || attention_ != spec::Attention::sdpa || rows < fewest_rows || shape.head_size > 128 ||
      (shape.window && *shape.window < rows) || std::ssize(parts) * rows != queries.size(0) ||
      at::cuda::getCurrentDeviceProperties()->major < hopper)
    return false;
  for (const AttentionPart& part : parts)
    if (part.rows != rows) return false;
  int& seen = layouts_seen_[{std::ssize(parts), rows}];
  if (seen <= often && ++seen > often) ++cudnn_layouts_;
  return seen > often && cudnn_layouts_ <= most_layouts;
}

namespace {

// [sequences, heads, rows of each, head_size]: no copy.
at::Tensor sequences_of(const at::Tensor& rows, std::int64_t sequences, std::int64_t head_size) {
  return rows.view({sequences, rows.size(0) / sequences, -1, head_size}).transpose(1, 2);
}

at::Tensor rows_together(const at::Tensor& heads) {
  return heads.transpose(1, 2).reshape({heads.size(0) * heads.size(2), -1});
}

}  // namespace

bool GpuAttention::cudnn_parts(const AttentionShape& shape, std::int64_t sequences, const HeadRows& heads,
                               at::Tensor& output, at::Tensor& log_sums) {
  const auto own = [&](const at::Tensor& rows) { return sequences_of(rows, sequences, shape.head_size); };
  try {
    const auto found = at::_scaled_dot_product_cudnn_attention(own(heads.queries), own(heads.keys), own(heads.values),
                                                               std::nullopt, true, 0.0, true, false, shape.scale);
    output = rows_together(std::get<0>(found));
    log_sums = std::get<1>(found);
    return true;
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error&) {
    cudnn_refuses_ = true;  // it rejects what it does not support before it computes anything
    return false;
  }
}

std::optional<AttentionGradient> GpuAttention::cudnn_backward(const AttentionShape& shape, const HeadRows& heads,
                                                              const at::Tensor& output, const at::Tensor& log_sums,
                                                              const at::Tensor& output_gradient) {
  const std::int64_t sequences = log_sums.size(0), rows = log_sums.size(2);
  const auto own = [&](const at::Tensor& all) { return sequences_of(all, sequences, shape.head_size); };
  const at::Tensor unused = at::empty({}, output.options().dtype(at::kLong));  // there is no dropout
  try {
    const auto found = at::_scaled_dot_product_cudnn_attention_backward(
        own(output_gradient.contiguous()), own(heads.queries), own(heads.keys), own(heads.values), own(output),
        log_sums, unused, unused, {}, {}, {}, rows, rows, 0.0, true, shape.scale);
    return AttentionGradient{rows_together(std::get<0>(found)), rows_together(std::get<1>(found)),
                             rows_together(std::get<2>(found))};
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error&) {
    cudnn_refuses_ = true;
    return std::nullopt;
  }
}

at::Tensor GpuAttention::forward(const AttentionShape& shape, const AttentionTables& tables, const HeadRows& heads,
                                 const LayerCache& cache, at::Tensor* log_sums) {
  at::Tensor output = at::empty_like(heads.queries);
  if (log_sums != nullptr) log_sums->reset();
  const bool packs = has_packed(shape, output.scalar_type()), singles = has_single(shape);
  std::vector<AttentionPart> packed;
  for (const AttentionPart& part : tables.parts) {
    if (singles && part.rows == 1 && !part.blocks.empty()) continue;
    if (packs && part.position == 0)
      packed.push_back(part);
    else
      library_part(shape, part, heads, cache, output);
  }
  const bool left_to_cudnn = log_sums != nullptr && !packed.empty() && cudnn_takes(shape, packed, heads.queries) &&
                             cudnn_parts(shape, std::ssize(packed), heads, output, *log_sums);
  if (!left_to_cudnn && !packed.empty()) packed_parts(shape, packed, heads, output, log_sums);
  if (singles && tables.single_rows.numel() > 0) single_rows(shape, tables, heads, cache, output);
  return output;
}

namespace {

// Plain operations one after another: the same bits every time. They add what they are given as a mask.
at::Tensor attend_plainly(const AttentionShape& shape, const AttentionPart& part, const at::Tensor& queries,
                          const at::Tensor& keys, const at::Tensor& values) {
  at::Tensor mask = visibility(shape, part, 0, keys.size(2), queries.device());
  const bool causal = !mask.defined() && part.rows > 1;
  if (mask.defined()) mask = at::zeros_like(mask, queries.scalar_type()).masked_fill_(mask.logical_not(), -INFINITY);
  return std::get<0>(
      at::_scaled_dot_product_attention_math(queries, keys, values, mask.defined() ? std::optional(mask) : std::nullopt,
                                             0.0, causal, std::nullopt, shape.scale, shape.heads != shape.kv_heads));
}

// Autograd over this one operation, computed again.
AttentionGradient library_attention_gradient(const AttentionShape& shape, const AttentionTables& tables,
                                             const HeadRows& heads, const at::Tensor& output_gradient,
                                             bool deterministic) {
  const at::Tensor& queries = heads.queries;
  AttentionGradient gradient{at::empty_like(queries), at::empty_like(heads.keys), at::empty_like(heads.values)};
  for (const AttentionPart& part : tables.parts) {
    const at::AutoGradMode recording(true);
    const auto leaf = [](const at::Tensor& tensor) { return tensor.detach().requires_grad_(); };
    const at::Tensor query = leaf(heads_of(queries.narrow(0, part.first_row, part.rows), shape.heads, shape.head_size));
    const at::Tensor key = leaf(gathered(shape, part, heads.keys, {}, 0, part.rows));
    const at::Tensor value = leaf(gathered(shape, part, heads.values, {}, 0, part.rows));
    const at::Tensor attended =
        deterministic ? attend_plainly(shape, part, query, key, value) : attend(shape, part, query, key, value, 0);
    const at::Tensor from_output =
        heads_of(output_gradient.narrow(0, part.first_row, part.rows).contiguous(), shape.heads, shape.head_size);
    const auto found = torch::autograd::grad({attended}, {query, key, value}, {from_output});
    const at::NoGradGuard finished;
    gradient.queries.narrow(0, part.first_row, part.rows).copy_(rows_of(found[0]));
    gradient.keys.narrow(0, part.first_row, part.rows).copy_(rows_of(found[1]));
    gradient.values.narrow(0, part.first_row, part.rows).copy_(rows_of(found[2]));
  }
  return gradient;
}

// Torch's packed attention adds up query gradients in an order that changes from run to run, unless told otherwise.
class FixedOrder {
 public:
  explicit FixedOrder(bool wanted)
      : wanted_(wanted),
        before_(at::globalContext().deterministicAlgorithms()),
        warned_(at::globalContext().deterministicAlgorithmsWarnOnly()),
        filled_(at::globalContext().deterministicFillUninitializedMemory()) {
    if (wanted_) set(true, false, false);
  }
  ~FixedOrder() {
    if (wanted_) set(before_, warned_, filled_);
  }
  FixedOrder(const FixedOrder&) = delete;
  FixedOrder& operator=(const FixedOrder&) = delete;

 private:
  static void set(bool fixed, bool warns, bool fills) {
    at::globalContext().setDeterministicAlgorithms(fixed, warns);
    at::globalContext().setDeterministicFillUninitializedMemory(fills);
  }

  bool wanted_, before_, warned_, filled_;
};

}  // namespace

AttentionGradient GpuAttention::backward(const AttentionShape& shape, const AttentionTables& tables,
                                         const HeadRows& heads, const at::Tensor& output, const at::Tensor& log_sums,
                                         const at::Tensor& output_gradient, bool deterministic) {
  const at::Tensor& rows = heads.queries;
  if (!log_sums.defined() || !has_packed(shape, rows.scalar_type()))
    return library_attention_gradient(shape, tables, heads, output_gradient, deterministic);
  if (log_sums.dim() > 2) {
    auto found = cudnn_backward(shape, heads, output, log_sums, output_gradient);
    return found ? *found : library_attention_gradient(shape, tables, heads, output_gradient, deterministic);
  }
  const FixedOrder order(deterministic);
  const at::Tensor unused = at::empty({0}, rows.options());  // there is no dropout
  const auto gradient_of = [&](const std::vector<AttentionPart>& parts, std::int64_t first, std::int64_t count) {
    std::int64_t longest = 0;
    for (const AttentionPart& part : parts) longest = std::max(longest, part.rows);
    const auto some = [&](const at::Tensor& all, std::int64_t width) {
      return all.narrow(0, first, count).view({count, width, shape.head_size});
    };
    const at::Tensor begins = begins_of(parts, rows.device());
    const auto found = at::_flash_attention_backward(
        some(output_gradient.contiguous(), shape.heads), some(rows, shape.heads), some(heads.keys, shape.kv_heads),
        some(heads.values, shape.kv_heads), some(output.contiguous(), shape.heads),
        log_sums.narrow(1, first, count).contiguous(), begins, begins, longest, longest, 0.0, true, unused, unused,
        shape.scale, window_before(shape), window_after(shape));
    return AttentionGradient{std::get<0>(found).reshape({count, -1}), std::get<1>(found).reshape({count, -1}),
                             std::get<2>(found).reshape({count, -1})};
  };
  if (!deterministic) return gradient_of(tables.parts, 0, rows.size(0));
  // The number of sequences decides in how many pieces it adds up.
  AttentionGradient gradient{at::empty_like(rows), at::empty_like(heads.keys), at::empty_like(heads.values)};
  for (const AttentionPart& part : tables.parts) {
    if (part.rows == 0) continue;
    const AttentionGradient own = gradient_of({part}, part.first_row, part.rows);
    gradient.queries.narrow(0, part.first_row, part.rows).copy_(own.queries);
    gradient.keys.narrow(0, part.first_row, part.rows).copy_(own.keys);
    gradient.values.narrow(0, part.first_row, part.rows).copy_(own.values);
  }
  return gradient;
}

at::Tensor fixed_order_attention(const AttentionShape& shape, const AttentionTables& tables, const HeadRows& heads,
                                 const LayerCache& cache, at::Tensor* log_sums) {
  // One buffer of 64-bit numbers for all tables, so that one copy brings them to the device.
  std::vector<std::int64_t> row_sequence, row_position, keys, values, table_begin, blocks, block_tokens;
  const auto address = [](const at::Tensor& tensor) { return reinterpret_cast<std::int64_t>(tensor.const_data_ptr()); };
  for (std::size_t s = 0; s < tables.parts.size(); ++s) {
    const AttentionPart& part = tables.parts[s];
    for (std::int64_t i = 0; i < part.rows; ++i) {
      row_sequence.push_back(static_cast<std::int64_t>(s));
      row_position.push_back(part.position + i);
    }
    const bool own = part.blocks.empty();  // its rows are one block
    keys.push_back(address(own ? heads.keys.narrow(0, part.first_row, part.rows) : cache.keys));
    values.push_back(address(own ? heads.values.narrow(0, part.first_row, part.rows) : cache.values));
    table_begin.push_back(static_cast<std::int64_t>(blocks.size()));
    if (own)
      blocks.push_back(0);
    else
      blocks.insert(blocks.end(), part.blocks.begin(), part.blocks.end());
    block_tokens.push_back(own ? part.rows : tables.block_tokens);
  }
  std::vector<std::int64_t> all;
  std::vector<std::size_t> begins;
  for (const auto* list : {&row_sequence, &row_position, &keys, &values, &table_begin, &blocks, &block_tokens}) {
    begins.push_back(all.size());
    all.insert(all.end(), list->begin(), list->end());
  }
  const at::Tensor& queries = heads.queries;
  const at::Tensor device = at::tensor(all, at::kLong).to(queries.device());
  const auto* data = device.const_data_ptr<std::int64_t>();
  const auto pointers = [&](std::size_t list) { return reinterpret_cast<const void* const*>(data + begins[list]); };
  const cuda::AttentionTables kernel_tables{data + begins[0], data + begins[1], pointers(2),     pointers(3),
                                            data + begins[4], data + begins[5], data + begins[6]};
  at::Tensor output = at::empty_like(queries);
  if (log_sums != nullptr) *log_sums = at::empty({shape.heads, queries.size(0)}, queries.options().dtype(at::kFloat));
  check_launch(cuda::attention(current_stream(queries), scalar_of(queries), kernel_shape(shape), kernel_tables,
                               queries.const_data_ptr(), queries.size(0), output.mutable_data_ptr(),
                               log_sums == nullptr ? nullptr : log_sums->mutable_data_ptr<float>()));
  return output;
}

}  // namespace muster::tensor
