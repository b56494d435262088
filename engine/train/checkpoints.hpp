// Saves the state of a run while it goes on, and brings it back.
#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <optional>

#include "checkpoint/checkpoint_saver.hpp"
#include "parallel/stream_mark.hpp"
#include "train/state_tensors.hpp"
#include "wire/train_event.hpp"
#include "wire/train_task.hpp"

namespace muster::train {

class Checkpoints {
 public:
  // state must outlive this. rank: of this process; one that does not save only keeps count.
  Checkpoints(const wire::TrainTask& task, int rank, at::Device device, const StateTensors& state);

  std::optional<std::int64_t> newest_step() const { return begun_; }
  // Begins to copy the state and returns; copying and writing go on. Waits for the save before where it is still under
  // way.
  Result<void> save(const checkpoint::TrainingState& facts);
  // The state is changed by what is ordered from the device from now on: what is still being copied comes first.
  void before_change() const;
  // The save that was begun, once: where it is complete, or, with wait, when it is.
  Result<std::optional<wire::Saved>> completed(bool wait);

 private:
  const StateTensors& state_;
  at::Device device_;
  std::shared_future<std::shared_ptr<checkpoint::HostCopy>> copy_;  // getting its memory takes a while
  std::shared_future<parallel::StreamMark> copied_;
  std::optional<checkpoint::CheckpointSaver> saver_;  // absent: this rank does not save
  std::optional<std::int64_t> begun_;
  bool told_ = true;
  std::chrono::steady_clock::time_point since_;
};

}  // namespace muster::train
