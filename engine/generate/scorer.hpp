// How likely given continuations are: every token's log-probability after the ones before it, in one pass.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/causal_model.hpp"

namespace muster::generate {

struct ScoreRequest {
  std::vector<std::int32_t> tokens;  // context and continuation
  std::int64_t context = 0;          // the first so many are not scored; at least 1
};

// By request: the log-probability of each token of its continuation, in float32, at temperature 1. All are computed in
// one ragged batch; none depends on the others.
std::vector<std::vector<float>> score(model::CausalModel& model, tensor::Arithmetic& arithmetic,
                                      std::span<const ScoreRequest> requests);

}  // namespace muster::generate
