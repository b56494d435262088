#include "sweep/sweep_end.hpp"

#include <fmt/format.h>

namespace muster::sweep {
namespace {

std::int64_t failures_in_a_row(std::span<const Observation> finished) {
  std::int64_t count = 0;
  for (std::size_t i = finished.size(); i-- > 0 && finished[i].failed();) ++count;
  return count;
}

}  // namespace

std::optional<std::string> reason_to_end(const Limits& limits, std::span<const Observation> finished,
                                         std::size_t running, double seconds) {
  const auto begun = static_cast<std::int64_t>(finished.size() + running);
  if (limits.trials && begun >= *limits.trials) return fmt::format("{} of {} trials", begun, *limits.trials);
  if (limits.seconds && seconds >= *limits.seconds)
    return fmt::format("{:.0f} of {:.0f} seconds", seconds, *limits.seconds);
  if (const std::int64_t failures = failures_in_a_row(finished); failures >= limits.consecutive_failures)
    return fmt::format("{} failures in a row", failures);
  return std::nullopt;
}

}  // namespace muster::sweep
