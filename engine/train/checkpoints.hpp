// Saves the state of a run while it goes on, and brings it back.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "checkpoint/checkpoint_saver.hpp"
#include "train/state_tensors.hpp"
#include "wire/train_event.hpp"
#include "wire/train_task.hpp"

namespace muster::train {

class Checkpoints {
 public:
  // state must outlive this. rank: of this process; one that does not save only keeps count.
  Checkpoints(const wire::TrainTask& task, int rank, const StateTensors& state);

  std::optional<std::int64_t> newest_step() const { return begun_; }
  // Copies the state and returns; the writing goes on. Waits for the save before where it is still under way.
  Result<void> save(const checkpoint::TrainingState& facts);
  // The save that was begun, once: where it is complete, or, with wait, when it is.
  Result<std::optional<wire::Saved>> completed(bool wait);

 private:
  const StateTensors& state_;
  std::shared_ptr<checkpoint::HostCopy> copy_;
  std::optional<checkpoint::CheckpointSaver> saver_;  // absent: this rank does not save
  std::optional<std::int64_t> begun_;
  bool told_ = true;
  std::chrono::steady_clock::time_point since_;
};

}  // namespace muster::train
