// A reward model that judges answers: a second model, whole on every rank, with a tokenizer and a chat template of its own.
#pragma once

#include <memory>

#include "reward/judge.hpp"
#include "train/trainer_context.hpp"
#include "wire/train_task.hpp"

namespace muster::train {

// task.judge names it. It scores a text at its last token: prompt and answer, or, where the prompt is a conversation, what
// its own template writes of it with the answer, no token added. Unknown: a text without tokens, or with more than it has
// positions. Scores do not depend on what is judged beside. ops must outlive it.
Result<std::unique_ptr<reward::Part>> make_reward_model(const wire::TrainTask& task, const TrainerContext& context,
                                                        tensor::DeviceOps& ops);

}  // namespace muster::train
