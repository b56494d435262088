#include "model/attention_rows.hpp"

namespace muster::model {

std::vector<tensor::AttentionSequence> attention_sequences(const Pass& pass, const tensor::AttentionShape& shape,
                                                           std::int64_t layer, const at::Tensor& keys,
                                                           const at::Tensor& values) {
  std::vector<tensor::AttentionSequence> sequences;
  std::int64_t row = 0;
  for (const SequencePart& part : pass.batch.parts) {
    tensor::AttentionSequence sequence{row, part.rows, part.position, {}};
    const at::Tensor own_keys = keys.narrow(0, row, part.rows);
    const at::Tensor own_values = values.narrow(0, row, part.rows);
    if (!part.blocks.empty()) {
      pass.cache->store(layer, part.blocks, part.position, own_keys, own_values);
      sequence.key_values = pass.cache->view(layer, part.blocks);
    } else {
      const std::vector<std::int64_t> one_block{1, part.rows, shape.kv_heads, shape.head_size};
      sequence.key_values = {own_keys.reshape(one_block), own_values.reshape(one_block), {0}};
    }
    sequences.push_back(std::move(sequence));
    row += part.rows;
  }
  return sequences;
}

}  // namespace muster::model
