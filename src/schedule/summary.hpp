// The state of a set of jobs: for the last lines of a command, and for its exit status.
#pragma once

#include <string>
#include <vector>

#include "schedule/scheduler.hpp"

namespace muster::schedule {

struct Summary {
  struct Failure {
    JobId job;
    std::string reason;
    int attempts = 0;
    std::vector<JobId> skipped;  // everything that was skipped because of it, directly or indirectly
    bool operator==(const Failure&) const = default;
  };
  int succeeded = 0, failed = 0, skipped = 0, cancelled = 0;
  int open = 0;                   // not settled
  std::vector<Failure> failures;  // failed or cancelled, in the order of submission

  bool all_succeeded() const { return failed + skipped + cancelled + open == 0; }
  bool operator==(const Summary&) const = default;
};

Summary summarize(const Scheduler& scheduler);
// "14 jobs: 11 succeeded, 1 failed, 2 skipped", then a line for each failure and what it took with it.
std::string to_text(const Summary& summary);

}  // namespace muster::schedule
