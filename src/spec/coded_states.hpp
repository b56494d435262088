// Which parameters adamw_8bit has 8-bit states of; the others' states are those of adamw. As bitsandbytes has it, and
// transformers, which leaves embeddings out.
#pragma once

#include <cstdint>

#include "spec/model/model_shape.hpp"

namespace muster::spec {

// Elements that share a scale.
inline constexpr std::int64_t coded_state_block = 256;
inline constexpr std::int64_t least_coded_elements = 4096;

// What is looked up by rows, by tokens or positions, whatever else it is used for.
constexpr bool is_embedding(TensorRole role) {
  return role == TensorRole::embedding || role == TensorRole::position_embedding;
}

// elements: of a tensor as checkpoints have it.
constexpr bool has_coded_states(std::int64_t elements, bool embedding) {
  return !embedding && elements >= least_coded_elements;
}

// One moment: its codes, and the scales of its blocks.
constexpr std::int64_t coded_state_bytes(std::int64_t elements) {
  constexpr std::int64_t scale = 4;
  return elements + scale * ((elements + coded_state_block - 1) / coded_state_block);
}

}  // namespace muster::spec
