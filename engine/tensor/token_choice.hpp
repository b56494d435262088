// From logits to tokens, on the device where the logits are.
//
// Note [Weights are whole numbers]
// A token's weight is its probability relative to the likeliest one's, as a whole number (kernels/draw_weight.hpp).
// Sums of whole numbers do not depend on their order, so that every device chooses the same token from the same logits
// and the same chance, however many threads add.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tensor/torch.hpp"

namespace muster::tensor {

// How tokens are chosen; the same for all answers of a run.
//
// The penalty changes the logits, the temperature divides them; then top_k, top_p and min_p each cut down what is
// left.
struct SamplingRules {
  double temperature = 1;          // 0: the most likely token, the lowest of equals
  std::int64_t top_k = 0;          // 0: all; equals of the last one stay
  double top_p = 1;                // of the most likely tokens, the fewest with this probability together
  double min_p = 0;                // tokens with less than this share of the likeliest one's probability are cut off
  double repetition_penalty = 1;   // on the logits of tokens that were seen, as in transformers
  bool log_probabilities = false;  // of chosen tokens, too; given ones are always looked up
};

// What is asked of one row of logits.
struct TokenQuery {
  double uniform = 0;                       // chance, from 0 up to 1
  std::optional<std::int32_t> given = {};   // this token's log-probability is asked for; nothing is chosen
  std::span<const std::int32_t> seen = {};  // prompt and answer so far; looked at where there is a penalty
};

struct ChosenToken {
  std::int32_t token = 0;
  // From the full softmax of logits / temperature (1 for temperature 0), whatever was cut off or penalised before
  // drawing; 0 where it was not asked for. NaN where any logit of the row is: the model has failed there.
  float log_probability = 0;

  bool operator==(const ChosenToken&) const = default;
};

class TokenChoice {
 public:
  virtual ~TokenChoice() = default;
  // logits: [rows, vocabulary], of any floating type; by row.
  virtual std::vector<ChosenToken> choose(const SamplingRules& rules, const at::Tensor& logits,
                                          std::span<const TokenQuery> queries) = 0;
};

}  // namespace muster::tensor
