// From logits to a token. Pure: chance is an argument.
#pragma once

#include <cstdint>
#include <span>

namespace muster::generate {

struct SamplingRules {
  double temperature = 1;         // 0: the most likely token, the lowest of equals
  std::int64_t top_k = 0;         // 0: all
  double top_p = 1;               // of the most likely tokens, the fewest with this probability together
  double repetition_penalty = 1;  // on the logits of tokens that were seen, as in transformers
};

struct Choice {
  std::int32_t token = 0;
  // Of the full softmax of logits / temperature (1 for temperature 0), whatever was cut off or penalised before
  // drawing.
  double log_probability = 0;
};

// logits: of the whole vocabulary. seen: prompt and answer so far. uniform: from 0 up to 1. Every sum is in the order
// of the tokens, so that equal logits give equal choices everywhere.
Choice choose(std::span<const float> logits, const SamplingRules& rules, std::span<const std::int32_t> seen,
              double uniform);

}  // namespace muster::generate
