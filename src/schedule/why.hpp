// Exactly what a job waits for, and when it is expected to begin.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "schedule/scheduler.hpp"

namespace muster::schedule {

struct Why {
  struct Awaited {
    JobId job;
    JobState state = JobState::waiting;
    bool needs_success = true;
  };
  struct Holder {
    JobId job;
    std::vector<std::string> gpus;
    std::optional<Time> expected_end;
  };
  struct SetAside {
    std::string gpu;
    GpuState state = GpuState::lost;
    std::string words;
  };
  struct Gpus {
    int wanted = 0, free = 0, all = 0;
    std::vector<Holder> holders;
    std::vector<SetAside> set_aside;
    std::vector<std::string> avoided;  // where it failed: it waits for others
  };

  JobId job;
  JobState state = JobState::waiting;
  Time now;
  std::string reason;                  // settled: why; ready again: what went wrong
  std::vector<Awaited> awaited;        // waiting: jobs that have not ended
  std::optional<Gpus> gpus;            // ready, and it wants some
  std::optional<int> without_gpus;     // ready, and it wants none: so many of those run at a time, and they do
  std::size_t ahead = 0;               // ready: jobs before it in the line
  std::vector<JobId> first_ahead;      // the first few of them, in their order
  std::optional<JobId> reserved_for;   // GPUs are kept free for this one, which may be the job itself
  std::optional<Time> reserved_start;  // when that one is expected to begin
  std::optional<Time> expected_start;  // of the job; absent when somebody before it has no prediction
  std::vector<JobId> unpredicted;      // running jobs of which nobody knows when they end, and that it may wait for
};

// Looks ahead by simulating what is expected; takes time in the order of the jobs before it.
Result<Why> why(const Scheduler& scheduler, const JobId& job);
// For people: a few lines.
std::string to_text(const Why& why);

}  // namespace muster::schedule
