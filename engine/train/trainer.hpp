// The loop of training: passes, sums over ranks, steps of the optimizer, evaluations, checkpoints.
#pragma once

#include <functional>
#include <memory>

#include "base/result.hpp"
#include "communicate/communicator.hpp"
#include "train/state_ranks.hpp"
#include "wire/event.hpp"
#include "wire/train_task.hpp"

namespace muster::train {

// What a trainer has around it.
struct TrainerContext {
  communicate::Communicator& ranks;
  at::Device device;
  int threads = 1;  // that compute
  std::uint64_t seed = 0;
  std::function<void(const wire::EventBody&)> tell;
  std::function<bool()> asked_to_leave;  // a signal came: save, and leave
  JoinSome join_some;                    // of the job's ranks
};

enum class Ending { done, left };

class Trainer {
 public:
  // Everything that a run holds: model, masters, optimizer, data, where it stands.
  static Result<std::unique_ptr<Trainer>> make(const wire::TrainTask& task, TrainerContext place);
  virtual ~Trainer() = default;

  // To the last step, or until a rank was asked to leave. Every rank returns from the same step.
  virtual Result<Ending> run() = 0;
};

}  // namespace muster::train
