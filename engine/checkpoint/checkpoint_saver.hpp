// Saves training checkpoints while training goes on.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/result.hpp"
#include "checkpoint/host_copy.hpp"
#include "checkpoint/logical_tensor.hpp"
#include "checkpoint/training_state.hpp"

namespace muster::checkpoint {

struct SaverContext {
  std::filesystem::path folder;  // runs/NAME/checkpoints, the same for all ranks
  std::string attempt;           // letters, digits, - and _: the same for all ranks of one start, new for every start
  int rank = 0;
  int ranks = 1;
  std::optional<int> keep;                                        // save_total_limit; absent: all are kept
  std::chrono::milliseconds patience = std::chrono::minutes(10);  // of rank 0, for the slowest other rank
  std::chrono::milliseconds disk_patience{0};                     // of each rank, for room on the disk
};

struct SaveReport {
  std::filesystem::path path;                  // of the checkpoint; rank 0's is there when it reports
  std::uint64_t bytes = 0;                     // that this rank wrote
  std::vector<std::filesystem::path> removed;  // by rank 0: beyond the number to keep
};

// One for each rank. Note [Ranks meet in the folder]: each rank writes its file into the staging folder and renames it
// there when it is on the disk. Rank 0 waits for all files, checks that together they hold every element once, writes
// the manifest and gives the folder its name. So the threads that save need no communicator, and a rank that is killed
// at any moment leaves nothing that looks whole. The attempt in the staging folder's name keeps files of a killed start
// apart from those of the next.
class CheckpointSaver {
 public:
  // tensors: all that the ranks save together.
  CheckpointSaver(SaverContext place, std::vector<LogicalTensor> tensors)
      : place_(std::move(place)), tensors_(std::move(tensors)) {}
  // Gives up a save that is under way; wait() first where it matters.
  ~CheckpointSaver() = default;
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  // Starts a save and returns. The copy must stay as it is from when `arrived` returns, which the save calls first,
  // until finished(). Every rank begins the same saves in the same order. Refused while another one is under way. A
  // step is saved once: beginning it again starts nothing, and wait() returns the same result again.
  Result<void> begin(
      const TrainingState& state, std::shared_ptr<const HostCopy> copy, std::function<void()> arrived = [] {});
  // Whether nothing is being written, at the latest after so long: wait() would return at once.
  bool finished(std::chrono::milliseconds within = std::chrono::milliseconds(0)) const;
  // Bytes of this rank's file, of the save that was begun last.
  std::uint64_t written() const { return written_; }
  // What it waits for, in words for the user, once for each wait; nothing where it does not wait.
  std::optional<std::string> take_shortage();
  // The result of the save that was begun last; an error where none was. Rank 0's success means that the checkpoint is
  // there; another rank's, that its part is.
  Result<SaveReport> wait();

 private:
  Result<void> check_begin(const TrainingState& state) const;

  SaverContext place_;
  std::vector<LogicalTensor> tensors_;
  std::optional<std::int64_t> step_;  // that was begun last
  std::atomic<std::uint64_t> written_ = 0;
  std::mutex shortage_access_;
  std::optional<std::string> shortage_;
  std::shared_future<Result<SaveReport>> outcome_;
  std::jthread thread_;  // last: it is stopped and joined first
};

}  // namespace muster::checkpoint
