// The data of a training by rewards: prompts that the model answers, and questions for evaluation.
#pragma once

#include <filesystem>
#include <optional>

#include "base/result.hpp"
#include "chat/model_text.hpp"
#include "data/prepare_data.hpp"
#include "spec/reward_model_choice.hpp"
#include "spec/run_spec.hpp"

namespace muster::job {

struct PromptData {
  data::PreparedFile prompts;                      // a file of questions, which ranks read
  std::optional<std::filesystem::path> questions;  // from data.eval_path, answered for exact match
};

// judge: the reward model, where there is one. longest: tokens of prompt and answer together. Refused: rows that ask nothing,
// that leave no room for an answer, or that lack the right answer where it is what answers are judged by; a reward model
// that cannot read them.
Result<PromptData> prepare_prompts(const spec::RunSpec& spec, const std::optional<spec::RewardModelChoice>& judge,
                                   const chat::ModelText& text, const std::filesystem::path& cache,
                                   std::int64_t longest);

// Optimizer steps of so many passes over the prompts. batch: answers of a step.
std::int64_t policy_steps(const spec::PolicyOptions& policy, std::int64_t prompts, std::int64_t batch,
                          std::int64_t epochs);
// Those of a whole round, and of so many rounds, the last one of a pass being smaller.
std::int64_t updates_of_round(const spec::PolicyOptions& policy, std::int64_t batch);
std::int64_t steps_of_rounds(const spec::PolicyOptions& policy, std::int64_t prompts, std::int64_t batch,
                             std::int64_t rounds);

}  // namespace muster::job
