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
    std::vector<GpuNumber> gpus;
    std::optional<Time> expected_end;
  };
  struct SetAside {
    GpuNumber gpu{};
    std::string name;
    GpuState state = GpuState::lost;
    std::string words;
  };
  struct Gpus {
    int wanted = 0, free = 0, all = 0;
    std::vector<Holder> holders;
    std::vector<SetAside> set_aside;
    std::vector<GpuNumber> avoided;  // where it failed: it waits for others
  };

  JobId job;
  JobState state = JobState::waiting;
  Time now;
  std::string reason;                  // settled: why; ready again: what went wrong
  std::vector<Awaited> awaited;        // waiting: jobs that have not ended
  std::optional<StartPause> pause;     // ready: it could not be started, and will be tried again
  std::optional<Gpus> gpus;            // ready, and it wants some
  std::optional<int> without_gpus;     // ready, and it wants none: this many of those may run at a time, and do
  std::size_t ahead = 0;               // ready: jobs before it in the line
  std::vector<JobId> first_ahead;      // the first few of them, in their order
  std::optional<JobId> reserved_for;   // GPUs are kept free for this one, which may be the job itself
  std::optional<Time> reserved_start;  // when that one is expected to begin
  std::optional<Time> expected_start;  // of the job; absent when a job before it has no prediction
  std::vector<JobId> unpredicted;      // running jobs whose end is unknown, and that it may wait for
};

// Looks ahead by simulating what is expected; takes time proportional to the jobs before it.
Result<Why> why(const Scheduler& scheduler, const JobId& job);
// For people: a few lines.
std::string to_text(const Why& why);

}  // namespace muster::schedule
