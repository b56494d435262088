// Where a GGUF file keeps the tensors that transformers has names for, and in which order of rows.
#pragma once

#include <string>

#include "spec/model/model_shape.hpp"

namespace muster::spec {

// "blk.3.attn_q.weight" for model.layers.3.self_attn.q_proj.weight.
std::string gguf_name(const ModelShape& shape, TensorId id);

enum class GgufOrder {
  same,
  transposed,   // GPT-2's projections: outputs first, as other families have them
  interleaved,  // llama's queries and keys: in each head, the two elements of a rotated pair are next to each other
};
GgufOrder gguf_order(const ModelShape& shape, TensorId id, Family family);

// The tensor's sizes in the file, in torch's order.
Dimensions gguf_dimensions(const ModelShape& shape, TensorId id);

}  // namespace muster::spec
