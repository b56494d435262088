// Drawing one token of one row, whatever device the logits came from: which tokens may be drawn, and which one is.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/token_choice.hpp"

namespace muster::tensor {

// Cuts tokens off by setting their weights to 0: those below the top_k highest, then those past top_p, then those under
// min_p. Keeps its memory from row to row.
class RowCut {
 public:
  // judged, weights: by token; a NaN's weight is 0. Returns the sum that is left: 0 only where the highest is infinite.
  std::uint64_t apply(const SamplingRules& rules, std::span<const float> judged, std::span<std::uint64_t> weights);

 private:
  // Tokens whose logits begin with the same bits, so that only one such group has to be sorted.
  struct Group {
    std::int64_t count = 0;
    std::uint64_t weight = 0;
  };
  static std::size_t group_of(float logit);
  void group(std::span<const float> judged, std::span<const std::uint64_t> weights);
  void keep_highest(std::int64_t count, std::span<const float> judged, std::span<std::uint64_t> weights);
  void keep_likely(double share, std::span<const float> judged, std::span<std::uint64_t> weights);

  std::vector<Group> groups_;
  std::vector<std::size_t> members_;
};

// The first token, in the order of the vocabulary, up to which the weights exceed the chance's share of their sum.
std::size_t draw_token(std::span<const std::uint64_t> weights, std::uint64_t total, double uniform);

}  // namespace muster::tensor
