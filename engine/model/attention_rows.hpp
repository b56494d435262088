// Attention of one layer over a batch: keys and values go into the cache, or stay the rows that they are.
#pragma once

#include "model/block.hpp"

namespace muster::model {

// The parts of the batch as the primitive wants them. keys, values: [rows, kv_heads * head_size] of this batch.
std::vector<tensor::AttentionSequence> attention_sequences(const Pass& pass, const tensor::AttentionShape& shape,
                                                           std::int64_t layer, const at::Tensor& keys,
                                                           const at::Tensor& values);

}  // namespace muster::model
