// How long jobs of a label or kind take, from those that succeeded.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "schedule/job.hpp"
#include "schedule/length_step.hpp"

namespace muster::schedule {

class LearnedLengths {
 public:
  // Whether what is expected of this name is another step now.
  bool learn(const std::string& name, Duration length);
  // The longest of the last 32 to 64, rounded up. It rises at once, and falls when as many were shorter: a line of
  // thousands is not sorted anew for every difference.
  std::optional<Duration> expected(const std::string& name) const;

 private:
  struct Course {
    Duration longest_now{}, longest_before{};  // of this block of lengths, and of the one before
    int seen = 0;                              // in this block
    LengthStep step{};
  };
  std::unordered_map<std::string, Course> courses_;
};

}  // namespace muster::schedule
