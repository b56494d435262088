// What the scheduler orders, in the order in which to do it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "schedule/job.hpp"

namespace muster::schedule {

struct Start {
  JobId job;
  std::vector<GpuNumber> gpus;  // ascending
  int attempt = 1;
  bool operator==(const Start&) const = default;
};

enum class StopReason { cancelled, timeout, heartbeat, gpu_lost };
std::string_view name(StopReason reason);

// End its processes, then report that it Ended. Until then it holds its GPUs.
struct Stop {
  JobId job;
  StopReason reason = StopReason::cancelled;
  bool operator==(const Stop&) const = default;
};

// A failed attempt that is not the last: the job is in the line again.
struct Retry {
  JobId job;
  std::string reason;
  int retries_left = 0;
  bool operator==(const Retry&) const = default;
};

enum class Outcome { succeeded, failed, skipped, cancelled };
std::string_view name(Outcome outcome);

// The job's final state: nothing more will be ordered for it.
struct Settle {
  JobId job;
  Outcome outcome = Outcome::succeeded;
  std::string reason;            // empty when it succeeded
  std::optional<JobId> because;  // skipped: the job it waited for, which did not succeed
  bool operator==(const Settle&) const = default;
};

using Decision = std::variant<Start, Stop, Retry, Settle>;

}  // namespace muster::schedule
