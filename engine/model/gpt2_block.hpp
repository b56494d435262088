// The block of GPT-2: layer norms, one product for queries, keys and values, a plain feed-forward.
#pragma once

#include "model/block.hpp"
#include "model/linear.hpp"
#include "model/norm.hpp"
#include "spec/model/activation.hpp"

namespace muster::model {

struct Gpt2BlockParts {
  std::int64_t layer = 0;  // among those this rank holds
  tensor::AttentionShape shape;
  double epsilon = 1e-5;
  spec::Activation activation = spec::Activation::gelu_new;
  Norm attention_norm, feed_forward_norm;
  Linear joined;  // queries, keys and values
  Linear output;
  Linear up, down;
};

std::unique_ptr<Block> make_gpt2_block(Gpt2BlockParts parts);

}  // namespace muster::model
