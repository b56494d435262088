// The clock of a queue: the time that its journal counts in. It follows the time since the machine booted, from one
// conductor to the next, so that setting the wall clock neither triggers timeouts nor keeps them from firing.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "schedule/job.hpp"

namespace muster::queue {

// What the machine's clocks say at one moment.
struct ClockReading {
  std::string boot;  // which boot of the machine; empty if it is not known
  schedule::Duration since_boot{};
  schedule::Time wall;
};
ClockReading read_clocks();

// The file `boot`: which boot of the machine the last conductor saw, and what the queue's clock said at that boot.
struct BootRecord {
  std::string boot;
  std::optional<schedule::Time> clock_at_boot;  // absent in files of earlier versions
  bool operator==(const BootRecord&) const = default;
};
std::string to_text(const BootRecord& record);
BootRecord parse_boot(std::string_view text);

class QueueClock {
 public:
  // last: the journal's last moment; the clock never goes back behind it. While jobs are open, the clock of this boot
  // of the machine continues as it was; a queue without open jobs adopts the wall clock again.
  QueueClock(const ClockReading& now, const std::optional<BootRecord>& before, schedule::Time last, bool has_open_jobs);
  // For commands that only look: the clock according to the file, else the wall clock.
  QueueClock(const ClockReading& now, const std::optional<BootRecord>& before);

  schedule::Time now() const { return at(read_clocks()); }
  schedule::Time at(const ClockReading& reading) const { return record_.clock_at_boot.value() + reading.since_boot; }
  // The moment at which a file was touched, in this clock's time.
  schedule::Time moment_of(std::chrono::system_clock::time_point moment) const;
  // To be written to the file.
  const BootRecord& record() const { return record_; }

 private:
  BootRecord record_;
};

}  // namespace muster::queue
