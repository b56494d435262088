#include "sweep/sweep_end.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/count_of.hpp"

namespace muster::sweep {
namespace {

std::int64_t failures_in_a_row(std::span<const Observation> finished, std::size_t earlier) {
  std::int64_t count = 0;
  finished = finished.subspan(std::min(earlier, finished.size()));
  for (std::size_t i = finished.size(); i-- > 0 && finished[i].failed();) ++count;
  return count;
}

}  // namespace

std::optional<std::string> reason_to_end(const Limits& limits, std::span<const Observation> finished,
                                         std::size_t running, double seconds, std::size_t earlier) {
  const auto begun = static_cast<std::int64_t>(finished.size() + running);
  if (limits.trials && begun >= *limits.trials) return fmt::format("{} of {}", begun, count_of(*limits.trials, "trial"));
  if (limits.seconds && seconds >= *limits.seconds)
    return fmt::format("{:.0f} of {:.0f} seconds", seconds, *limits.seconds);
  if (ended_by_failures(limits, finished, earlier))
    return fmt::format("{} in a row", count_of(failures_in_a_row(finished, earlier), "failure"));
  return std::nullopt;
}

bool ended_by_failures(const Limits& limits, std::span<const Observation> finished, std::size_t earlier) {
  return failures_in_a_row(finished, earlier) >= limits.consecutive_failures;
}

}  // namespace muster::sweep
