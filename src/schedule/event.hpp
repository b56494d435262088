// The scheduler's events. In their order they are the whole truth: see journal.hpp.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "schedule/job.hpp"
#include "schedule/process_end.hpp"
#include "schedule/rules.hpp"
#include "schedule/snapshot.hpp"
#include "schedule/start_pause.hpp"

namespace muster::schedule {

struct GpuFound {
  std::string name;  // the caller's: a UUID, an index
  bool operator==(const GpuFound&) const = default;
};
// A GPU failed or vanished: the job on it is stopped and begins again elsewhere.
struct GpuLost {
  GpuNumber gpu{};
  std::string reason;
  bool operator==(const GpuLost&) const = default;
};
// Another process has it. A job that was to begin on it has not begun, and goes back to its place in the line.
struct GpuHeld {
  GpuNumber gpu{};
  std::string holder;
  bool operator==(const GpuHeld&) const = default;
};
struct GpuReturned {
  GpuNumber gpu{};
  bool operator==(const GpuReturned&) const = default;
};
// Which GPUs are near each other. All that is known: earlier links are forgotten.
struct GpusLinked {
  std::vector<GpuLink> links;
  bool operator==(const GpusLinked&) const = default;
};

// All of them, or none when one cannot be accepted. What a job depends on is known before it: submitted earlier, or
// earlier in this list.
struct Submitted {
  std::vector<Job> jobs;
  bool operator==(const Submitted&) const = default;
};
struct Cancelled {
  JobId job;
  bool operator==(const Cancelled&) const = default;
};

// A job that was to start did not: a failure like that of a job that ended at once.
struct StartFailed {
  JobId job;
  std::string reason;
  bool operator==(const StartFailed&) const = default;
};
// A job could not be started for lack of something that may be available again soon: disk, memory, processes, open
// files, the lease table. It has not begun, keeps its place in the line, and uses no retry. Nothing that needs the
// same is started for a while; the pause grows each time the job is postponed again.
struct Postponed {
  JobId job;
  std::string reason;
  Shortage shortage = Shortage::machine;
  bool operator==(const Postponed&) const = default;
};
struct Heartbeat {
  JobId job;
  std::optional<Time> at = {};  // when the sign was seen; absent: now
  bool operator==(const Heartbeat&) const = default;
};
struct Ended {
  using How = HowEnded;

  JobId job;
  How how = How::exited;
  int code = 0;  // as in ProcessEnd
  bool succeeded() const { return how == How::exited && code == 0; }
  bool operator==(const Ended&) const = default;
};

// Nothing but the passing of time.
struct Tick {
  bool operator==(const Tick&) const = default;
};

// A Snapshot is the first event, if there is one: it sets the scheduler's state.
using Happening = std::variant<Rules, GpuFound, GpuLost, GpuHeld, GpuReturned, GpusLinked, Submitted, Cancelled,
                               StartFailed, Postponed, Heartbeat, Ended, Tick, Snapshot>;

struct Event {
  Time time;  // if a clock was set back, time stands still until it has caught up
  Happening what;
  bool operator==(const Event&) const = default;
};

}  // namespace muster::schedule
