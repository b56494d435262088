// Where a run stands: what a checkpoint keeps beside the tensors, and what every rank knows.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "checkpoint/training_state.hpp"
#include "communicate/communicator.hpp"
#include "data/batch_schedule.hpp"
#include "optimizer/loss_scaler.hpp"
#include "wire/train_task.hpp"

namespace muster::train {

struct RunPosition {
  std::int64_t step = 0;     // done
  std::int64_t updates = 0;  // of them, not skipped
  data::BatchCursor cursor;
  optimizer::LossScaler scaler;
  std::optional<std::int64_t> evaluated;           // the last step after which it was done
  std::deque<checkpoint::StepNumbers> last_steps;  // of those done, as many as a checkpoint holds

  void remember(const wire::StepRecord& done);
};

// Gradients of float16 are scaled.
inline bool scales_loss(const wire::TrainTask& task) { return task.compute == spec::ElementType::float16; }

RunPosition position_of(const checkpoint::TrainingState& saved, const wire::TrainTask& task);
checkpoint::TrainingState state_of(const RunPosition& position, const wire::TrainTask& task, std::uint64_t seed);

// Rank 0's becomes every rank's, but for its last steps. All ranks call it.
void take_from_first_rank(RunPosition& position, communicate::Communicator& ranks, at::Device device);

}  // namespace muster::train
