// The block of Llama, Mistral, Qwen2 and Qwen3: RMS norms, rotated heads, a gated feed-forward.
#pragma once

#include <optional>

#include "model/block.hpp"
#include "model/linear.hpp"
#include "model/norm.hpp"
#include "spec/model/activation.hpp"

namespace muster::model {

struct RotaryBlockParts {
  std::int64_t layer = 0;  // among those this rank holds
  tensor::AttentionShape shape;
  double epsilon = 1e-6;
  spec::Activation activation = spec::Activation::silu;
  Norm input_norm, output_norm;              // before attention, before the feed-forward
  std::optional<Norm> query_norm, key_norm;  // Qwen3: of each head
  Linear joined;                             // queries, keys and values
  Linear output;
  Linear gate_and_up, down;
};

std::unique_ptr<Block> make_rotary_block(RotaryBlockParts parts);

}  // namespace muster::model
