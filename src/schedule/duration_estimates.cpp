#include "schedule/duration_estimates.hpp"

#include <algorithm>
#include <utility>

namespace muster::schedule {
namespace {

constexpr int block = 32;

}  // namespace

bool DurationEstimates::learn(const std::string& name, Duration length) {
  if (name.empty()) return false;
  const auto [found, is_new] = courses_.try_emplace(name);
  Course& course = found->second;
  course.name = name;
  course.longest_now = std::max(course.longest_now, length);
  if (++course.seen == block) {
    course.longest_before = std::exchange(course.longest_now, Duration{});
    course.seen = 0;
  }
  const LengthStep step = step_above(std::max(course.longest_now, course.longest_before));
  return std::exchange(course.step, step) != step || is_new;
}

std::optional<Duration> DurationEstimates::expected(const std::string& name) const {
  const auto found = courses_.find(name);
  if (found == courses_.end()) return std::nullopt;
  return longest(found->second.step);
}

std::vector<DurationEstimates::Course> DurationEstimates::courses() const {
  std::vector<Course> all;
  for (const auto& [name, course] : courses_) all.push_back(course);
  std::ranges::sort(all, {}, &Course::name);
  return all;
}

void DurationEstimates::restore(std::span<const Course> courses) {
  for (const Course& course : courses) courses_[course.name] = course;
}

}  // namespace muster::schedule
