#include "tensor/gpu/gpu_attention.hpp"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "tensor/gpu/gpu_scalar.hpp"

namespace muster::tensor {
namespace {

// [1, kv_heads, length, head_size]: one sequence's keys or values, from a position on.
at::Tensor gathered(const at::Tensor& storage, const std::vector<std::int64_t>& blocks, std::int64_t first,
                    std::int64_t length) {
  const at::Tensor joined = blocks.size() == 1
                                ? storage.select(0, blocks.front())
                                : storage.index_select(0, at::tensor(blocks, at::kLong).to(storage.device()))
                                      .flatten(0, 1);  // [tokens, kv_heads, head_size]
  return joined.narrow(0, first, length).transpose(0, 1).unsqueeze(0);
}

// Which keys a query may see: [rows, length]; undefined where the causal rule or none says it.
at::Tensor visibility(const AttentionShape& shape, const AttentionSequence& sequence, std::int64_t first,
                      std::int64_t length, at::Device device) {
  const bool slides = shape.window && *shape.window < sequence.position + sequence.rows;
  if (sequence.rows == 1) return {};
  if (sequence.position == 0 && !slides) return {};
  const auto options = at::TensorOptions().dtype(at::kLong).device(device);
  const at::Tensor query = at::arange(sequence.position, sequence.position + sequence.rows, options).unsqueeze(1);
  const at::Tensor key = at::arange(first, first + length, options).unsqueeze(0);
  const at::Tensor causal = key <= query;
  return slides ? at::logical_and(causal, key > query - *shape.window) : causal;
}

// queries: [1, heads, rows, head_size].
at::Tensor attend(const AttentionShape& shape, const AttentionSequence& sequence, const at::Tensor& queries,
                  const at::Tensor& keys, const at::Tensor& values, std::int64_t first) {
  const at::Tensor mask = visibility(shape, sequence, first, keys.size(2), queries.device());
  const bool causal = !mask.defined() && sequence.rows > 1;
  return at::scaled_dot_product_attention(queries, keys, values, mask.defined() ? std::optional(mask) : std::nullopt,
                                          0.0, causal, shape.scale, shape.heads != shape.kv_heads);
}

// The first key that any query of the sequence sees.
std::int64_t first_key(const AttentionShape& shape, const AttentionSequence& sequence) {
  if (!shape.window) return 0;
  return std::max<std::int64_t>(0, sequence.position - *shape.window + 1);
}

at::Tensor heads_of(const at::Tensor& rows, std::int64_t heads, std::int64_t size) {
  return rows.view({1, rows.size(0), heads, size}).transpose(1, 2);
}

at::Tensor rows_of(const at::Tensor& heads) { return heads.transpose(1, 2).reshape({heads.size(2), -1}); }

}  // namespace

at::Tensor library_attention(const AttentionShape& shape, const at::Tensor& queries,
                             std::span<const AttentionSequence> sequences) {
  at::Tensor output = at::empty_like(queries);
  for (const AttentionSequence& sequence : sequences) {
    const std::int64_t first = first_key(shape, sequence);
    const std::int64_t length = sequence.position + sequence.rows - first;
    const KeyValues& stored = sequence.key_values;
    const at::Tensor own = queries.narrow(0, sequence.first_row, sequence.rows);
    const at::Tensor attended = attend(shape, sequence, heads_of(own, shape.heads, shape.head_size),
                                       gathered(stored.keys, stored.blocks, first, length),
                                       gathered(stored.values, stored.blocks, first, length), first);
    output.narrow(0, sequence.first_row, sequence.rows).copy_(rows_of(attended));
  }
  return output;
}

// Autograd over this one operation, computed once more.
AttentionGradient library_attention_gradient(const AttentionShape& shape, const at::Tensor& queries,
                                             std::span<const AttentionSequence> sequences,
                                             const at::Tensor& output_gradient) {
  const std::int64_t kv_width = shape.kv_heads * shape.head_size;
  AttentionGradient gradient{at::empty_like(queries), at::empty({queries.size(0), kv_width}, queries.options()),
                             at::empty({queries.size(0), kv_width}, queries.options())};
  for (const AttentionSequence& sequence : sequences) {
    const at::AutoGradMode recording(true);
    const auto leaf = [](const at::Tensor& tensor) { return tensor.detach().requires_grad_(); };
    const KeyValues& stored = sequence.key_values;
    const at::Tensor query =
        leaf(heads_of(queries.narrow(0, sequence.first_row, sequence.rows), shape.heads, shape.head_size));
    const at::Tensor key = leaf(gathered(stored.keys, stored.blocks, 0, sequence.rows));
    const at::Tensor value = leaf(gathered(stored.values, stored.blocks, 0, sequence.rows));
    const at::Tensor attended = attend(shape, sequence, query, key, value, 0);
    const at::Tensor from_output = heads_of(output_gradient.narrow(0, sequence.first_row, sequence.rows).contiguous(),
                                            shape.heads, shape.head_size);
    const auto found = torch::autograd::grad({attended}, {query, key, value}, {from_output});
    const at::NoGradGuard finished;
    gradient.queries.narrow(0, sequence.first_row, sequence.rows).copy_(rows_of(found[0]));
    gradient.keys.narrow(0, sequence.first_row, sequence.rows).copy_(rows_of(found[1]));
    gradient.values.narrow(0, sequence.first_row, sequence.rows).copy_(rows_of(found[2]));
  }
  return gradient;
}

at::Tensor fixed_order_attention(const AttentionShape& shape, const at::Tensor& queries,
                                 std::span<const AttentionSequence> sequences) {
  // One buffer of 64-bit numbers for all tables, so that one copy brings them to the device.
  std::vector<std::int64_t> row_sequence, row_position, keys, values, table_begin, blocks, block_tokens;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    const AttentionSequence& sequence = sequences[s];
    for (std::int64_t i = 0; i < sequence.rows; ++i) {
      row_sequence.push_back(static_cast<std::int64_t>(s));
      row_position.push_back(sequence.position + i);
    }
    const KeyValues& stored = sequence.key_values;
    keys.push_back(reinterpret_cast<std::int64_t>(stored.keys.const_data_ptr()));
    values.push_back(reinterpret_cast<std::int64_t>(stored.values.const_data_ptr()));
    table_begin.push_back(static_cast<std::int64_t>(blocks.size()));
    blocks.insert(blocks.end(), stored.blocks.begin(), stored.blocks.end());
    block_tokens.push_back(stored.keys.size(1));
  }
  std::vector<std::int64_t> all;
  std::vector<std::size_t> begins;
  for (const auto* part : {&row_sequence, &row_position, &keys, &values, &table_begin, &blocks, &block_tokens}) {
    begins.push_back(all.size());
    all.insert(all.end(), part->begin(), part->end());
  }
  const at::Tensor device = at::tensor(all, at::kLong).to(queries.device());
  const auto* data = device.const_data_ptr<std::int64_t>();
  const auto pointers = [&](std::size_t part) { return reinterpret_cast<const void* const*>(data + begins[part]); };
  const cuda::AttentionTables tables{data + begins[0], data + begins[1], pointers(2),     pointers(3),
                                     data + begins[4], data + begins[5], data + begins[6]};
  const cuda::AttentionShape kernel_shape{shape.heads, shape.kv_heads, shape.head_size, shape.window.value_or(0),
                                          static_cast<float>(shape.scale)};
  at::Tensor output = at::empty_like(queries);
  check_launch(cuda::attention(current_stream(queries), scalar_of(queries), kernel_shape, tables,
                               queries.const_data_ptr(), queries.size(0), output.mutable_data_ptr()));
  return output;
}

}  // namespace muster::tensor
