// What can be changed about a question: each change as muster plan's options say it, and as the question takes it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace muster::plan {

struct Change {
  std::string what;
  std::vector<OptionChange> options;
  std::function<void(Question&)> apply;
};

// Changes of one thing, of which a remedy takes one: the smallest first.
using Family = std::vector<Change>;

// In the order in which people would rather have them; none is empty.
std::vector<Family> possible_changes(const Question& question);

}  // namespace muster::plan
