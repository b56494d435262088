// What a reward model's folder says about text.
#pragma once

#include <vector>

#include "base/result.hpp"
#include "chat/model_text.hpp"
#include "data/row_questions.hpp"
#include "spec/reward_model_choice.hpp"

namespace muster::job {

// Refused: a tokenizer with tokens that the model has no embedding for, and where a prompt is a conversation a model
// without a chat template.
Result<void> check_reward_text(const spec::RewardModelChoice& chosen, const std::vector<data::RowPrompt>& prompts);

}  // namespace muster::job
