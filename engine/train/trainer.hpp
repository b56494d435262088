// The loop of training: steps, evaluations, checkpoints, and what is reported of them.
#pragma once

#include <memory>

#include "base/result.hpp"
#include "train/trainer_context.hpp"
#include "wire/train_task.hpp"

namespace muster::train {

enum class Ending { done, left };

class Trainer {
 public:
  // Everything that a run holds: model, masters, optimizer, data, where it stands.
  static Result<std::unique_ptr<Trainer>> make(const wire::TrainTask& task, TrainerContext context);
  virtual ~Trainer() = default;

  // To the last step, or until a rank was asked to leave. Every rank returns from the same step.
  virtual Result<Ending> run() = 0;
};

}  // namespace muster::train
