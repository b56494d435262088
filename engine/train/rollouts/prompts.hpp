// The prompts of a run, as they are sampled from, judged and trained on.
#pragma once

#include <string>
#include <vector>

#include "chat/model_text.hpp"
#include "reward/judge.hpp"
#include "train/question_evaluation.hpp"
#include "train/rollouts/rollout.hpp"
#include "wire/train_task.hpp"

namespace muster::train {

struct Prompts {
  std::vector<Question> questions;
  std::vector<reward::Question> judged;
  std::vector<std::vector<std::int32_t>> tokens;
};

// task.data is a file of them. longest: tokens of prompt and answer together. Refused: a prompt that leaves no room for
// an answer.
Result<Prompts> read_prompts(const wire::TrainTask& task, const chat::ModelText& text, std::int64_t longest);

// As judges and people read it.
std::string answer_text(const Rollout& rollout, const chat::ModelText& text,
                        const std::vector<std::int64_t>& stop_tokens);

}  // namespace muster::train
