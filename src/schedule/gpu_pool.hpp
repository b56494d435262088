// The GPUs that the scheduler may allot, and which job has each.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "schedule/job.hpp"
#include "schedule/job_index.hpp"

namespace muster::schedule {

enum class GpuState { free, taken, held, lost };  // held: by another process

struct GpuStatus {
  std::string name;
  GpuState state = GpuState::free;
  Time since;                   // of this state
  std::string words;            // held: by what; lost: why
  std::optional<JobIndex> job;  // the one that runs on it, also while it is lost
  bool operator==(const GpuStatus&) const = default;
};

// Which `count` of the free GPUs (the longest free first) a job gets, in addition to those it already has. A pure
// function. Without one it is the first in that order; one that knows the links between GPUs takes those near each
// other.
using ChooseGpus = std::function<std::vector<GpuNumber>(std::span<const GpuNumber> free, std::size_t count,
                                                        std::span<const GpuNumber> beside)>;

class GpuPool {
 public:
  GpuNumber add(std::string name, Time now);
  // As it was: Snapshot::gpus.
  void restore(const GpuStatus& saved);
  // Also for a GPU that was lost: the job that runs on it while the pool is restored.
  void occupy(GpuNumber gpu, JobIndex job) { all_[static_cast<std::size_t>(number(gpu))].job = job; }
  void take(std::span<const GpuNumber> gpus, JobIndex job, Time now);
  // Those that were lost or held in the meantime stay so.
  void give_back(std::span<const GpuNumber> gpus, Time now);
  void set_aside(GpuNumber gpu, GpuState state, std::string words, Time now);
  // It returns to its state before it was set aside.
  void put_back(GpuNumber gpu, Time now);

  bool knows(GpuNumber gpu) const { return number(gpu) >= 0 && static_cast<std::size_t>(number(gpu)) < all_.size(); }
  const GpuStatus& at(GpuNumber gpu) const { return all_[static_cast<std::size_t>(number(gpu))]; }
  const std::vector<GpuStatus>& all() const { return all_; }

  int size() const { return static_cast<int>(all_.size()); }
  int free() const { return static_cast<int>(free_.size()); }
  int usable() const { return usable_; }  // free, or taken by a job of ours
  bool is_free(GpuNumber gpu) const { return at(gpu).state == GpuState::free; }
  bool is_usable(GpuNumber gpu) const { return is_free(gpu) || at(gpu).state == GpuState::taken; }

  // The free GPUs, the longest free first; at most this many.
  std::vector<GpuNumber> free_list(std::size_t most = std::numeric_limits<std::size_t>::max()) const;

 private:
  void become(GpuNumber gpu, GpuState state, std::string words, Time now);

  std::vector<GpuStatus> all_;
  std::set<std::pair<Time, GpuNumber>> free_;
  int usable_ = 0;
};

}  // namespace muster::schedule
