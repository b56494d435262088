// A run that samples what it is trained on: how much each part of a round takes, and how many answers are written side by side.
#pragma once

#include <cstdint>
#include <optional>

#include "plan/plan.hpp"

namespace muster::plan {

struct RoundQuestion {
  std::int64_t answers = 0;                      // of a round, over all ranks
  std::int64_t most_tokens = 256;                // of an answer
  std::optional<std::int64_t> side_by_side = {};  // on a rank; absent: as many as fit
  bool scores = false;                           // a reference's probabilities are computed
};

// Note [Phases]
// Sampling, scoring and training follow each other, and none leaves anything behind: what a rank takes is its training state
// with the largest of them. A phase without gradients takes that state with what the same pass takes for inference.
//
// Adds Plan::phases and Plan::side_by_side to a plan of training that fits. Where not even one answer fits, or those that
// were asked for do not, the plan is refused.
void add_phases(const Question& question, const RoundQuestion& round, Plan& plan);

}  // namespace muster::plan
