#include "queue/queue_clock.hpp"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstdint>

#include "system/files.hpp"
#include "base/text.hpp"

namespace muster::queue {
namespace {

bool is_same_start(const ClockReading& now, const std::optional<BootRecord>& before) {
  return before && before->clock_at_boot && !now.boot.empty() && before->boot == now.boot;
}

}  // namespace

ClockReading read_clocks() {
  static const std::string boot = [] {
    const auto text = read_file("/proc/sys/kernel/random/boot_id");
    return text ? std::string(trim(*text)) : std::string();
  }();
  timespec since_boot = {};
  ::clock_gettime(CLOCK_BOOTTIME, &since_boot);
  return {boot,
          std::chrono::floor<schedule::Duration>(std::chrono::seconds(since_boot.tv_sec) +
                                                 std::chrono::nanoseconds(since_boot.tv_nsec)),
          std::chrono::floor<schedule::Duration>(std::chrono::system_clock::now())};
}

std::string to_text(const BootRecord& record) {
  std::string text = record.boot + "\n";
  if (record.clock_at_boot) text += fmt::format("{}\n", record.clock_at_boot->time_since_epoch().count());
  return text;
}

BootRecord parse_boot(std::string_view text) {
  const std::vector<std::string> lines = split(text, '\n');
  BootRecord record{std::string(trim(lines.front())), {}};
  if (lines.size() > 1)
    if (const auto moment = parse_number<std::int64_t>(trim(lines[1])))
      record.clock_at_boot = schedule::Time(schedule::Duration(*moment));
  return record;
}

QueueClock::QueueClock(const ClockReading& now, const std::optional<BootRecord>& before, schedule::Time last,
                       bool has_open_jobs)
    : record_{now.boot, has_open_jobs && is_same_start(now, before) ? *before->clock_at_boot
                                                                    : std::max(now.wall, last) - now.since_boot} {}

QueueClock::QueueClock(const ClockReading& now, const std::optional<BootRecord>& before)
    : record_{now.boot, is_same_start(now, before) ? *before->clock_at_boot : now.wall - now.since_boot} {}

schedule::Time QueueClock::moment_of(std::chrono::system_clock::time_point moment) const {
  return now() - std::chrono::floor<schedule::Duration>(std::chrono::system_clock::now() - moment);
}

}  // namespace muster::queue
