// How long jobs of a label or kind take, from those that succeeded.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "schedule/job.hpp"
#include "schedule/duration_bucket.hpp"

namespace muster::schedule {

class DurationEstimates {
 public:
  // What is known about one name.
  struct Course {
    std::string name;
    Duration longest_now{}, longest_before{};  // of this block of lengths, and of the one before
    int seen = 0;                              // in this block
    LengthStep step{};
    bool operator==(const Course&) const = default;
  };

  // By their names.
  std::vector<Course> courses() const;
  void restore(std::span<const Course> courses);

  // Whether the expected length for this name is now in another step.
  bool learn(const std::string& name, Duration length);
  // The longest of the last 32 to 64, rounded up. It rises at once, and falls when as many were shorter: a line of
  // thousands is not sorted again for every difference.
  std::optional<Duration> expected(const std::string& name) const;

 private:
  std::unordered_map<std::string, Course> courses_;
};

}  // namespace muster::schedule
