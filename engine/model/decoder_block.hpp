// The block of every family: attention and a feed-forward part, each of what a norm made of the residual stream and
// added to it. What it has is what its parts say; what is turned, the pass says.
#pragma once

#include <optional>

#include "model/block.hpp"
#include "model/linear.hpp"
#include "model/norm.hpp"
#include "spec/model/activation.hpp"

namespace muster::model {

struct DecoderBlockParts {
  std::int64_t layer = 0;  // among those this rank holds
  tensor::AttentionShape shape;
  double epsilon = 1e-6;
  spec::Activation activation = spec::Activation::silu;
  bool gated = true;                         // up is gate and up, one above the other
  Norm attention_norm, feed_forward_norm;    // of what attention, and of what the feed-forward part reads
  std::optional<Norm> query_norm, key_norm;  // of each head
  Linear joined;                             // queries, keys and values
  Linear output;
  Linear up, down;
};

std::unique_ptr<Block> make_decoder_block(DecoderBlockParts parts);

}  // namespace muster::model
