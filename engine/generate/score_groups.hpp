// Requests that score given texts: those that begin alike continue from one prompt, which is computed once.
#pragma once

#include <cstdint>
#include <vector>

#include "generate/request.hpp"

namespace muster::generate {

struct ScoredText {
  std::int64_t index = 0;
  std::vector<std::int32_t> tokens;  // context and completion
  std::int64_t context = 0;          // this many, from the first, are not scored; at least 1, fewer than all
  std::int64_t adapter = 0;          // of those that share a prompt the same
};

// Texts share a prompt where that saves rows; the scores are the same either way. The longest requests come first, so
// that the last steps are not left with one of them.
std::vector<Request> group_scores(std::vector<ScoredText> texts);
// Each separately: for models whose rotary embeddings depend on a sequence's length.
std::vector<Request> separate_scores(std::vector<ScoredText> texts);

}  // namespace muster::generate
