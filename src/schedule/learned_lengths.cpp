#include "schedule/learned_lengths.hpp"

#include <algorithm>

namespace muster::schedule {
namespace {

// Steps that an expectation may be too high: a line is not sorted anew for every small difference.
constexpr int calm = 2;

}  // namespace

bool LearnedLengths::learn(const std::string& name, Duration length) {
  if (name.empty()) return false;
  const auto [found, is_new] = courses_.try_emplace(name);
  Course& course = found->second;
  course.last[course.next] = length;
  course.next = (course.next + 1) % course.last.size();
  const LengthStep seen = step_above(std::ranges::max(course.last));
  if (!is_new && seen <= course.step && static_cast<int>(course.step) - static_cast<int>(seen) <= calm) return false;
  course.step = seen;
  return true;
}

std::optional<Duration> LearnedLengths::expected(const std::string& name) const {
  const auto found = courses_.find(name);
  if (found == courses_.end()) return std::nullopt;
  return longest(found->second.step);
}

}  // namespace muster::schedule
