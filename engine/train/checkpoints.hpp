// Saves the state of a run while it continues, and restores it.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>

#include "checkpoint/checkpoint_saver.hpp"
#include "parallel/stream_mark.hpp"
#include "train/state_transfer.hpp"
#include "wire/event.hpp"
#include "wire/train_task.hpp"

namespace muster::train {

struct CheckpointPlace {
  int rank = 0;                                      // of this process
  std::function<void(const wire::EventBody&)> tell;  // that a save is still waited for
};

// A model's state, and how it comes to those that save it.
struct SavedState {
  const StateTensors& tensors;
  const StateTransfer& transfer;
};

class Checkpoints {
 public:
  // What the states refer to must outlive this. They are saved together, and have tensors of different names. One that
  // does not save only hands over what others save for it.
  Checkpoints(const wire::TrainTask& task, const CheckpointPlace& place, std::vector<SavedState> states);

  // All tensors of these states.
  static std::vector<checkpoint::LogicalTensor> tensors_of(const std::vector<SavedState>& states);

  // Begins to copy the state and returns; copying and writing continue. Waits for the previous save if that is under
  // way. What ranks without a folder hold has reached those that save it when this returns. All ranks call it.
  Result<void> save(const checkpoint::TrainingState& facts);
  // The state is changed by what is ordered from the device from now on: what is still being copied comes first.
  void before_change() const;
  // The save that was begun, once: where it is complete, or, with wait, when it is.
  Result<std::optional<wire::Saved>> completed(bool wait);

 private:
  std::function<void()> begin_copy();
  // Reports its progress meanwhile.
  Result<checkpoint::SaveReport> await_save();
  // Reports that a save waits for room on the disk.
  void tell_shortage();

  std::function<void(const wire::EventBody&)> tell_;
  std::vector<SavedState> states_;
  at::Device device_;                                                       // where the state lies
  std::shared_future<Result<std::shared_ptr<checkpoint::HostCopy>>> copy_;  // getting its memory takes a while
  std::shared_future<parallel::StreamMark> copied_;
  std::optional<checkpoint::CheckpointSaver> saver_;  // absent: this rank does not save
  std::optional<std::int64_t> begun_;
  bool told_ = true;
  std::chrono::steady_clock::time_point since_;
};

}  // namespace muster::train
