// How long jobs of a label or kind take, from those that succeeded.
#pragma once

#include <array>
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
  // The longest of the last few, rounded up; a step down is taken when it is a large one.
  std::optional<Duration> expected(const std::string& name) const;

 private:
  struct Course {
    std::array<Duration, 5> last{};  // a ring; zero where nothing was seen
    std::size_t next = 0;
    LengthStep step{};
  };
  std::unordered_map<std::string, Course> courses_;
};

}  // namespace muster::schedule
