// What can be changed about a question: each change as settings, and as applied to the question.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace muster::plan {

struct Change {
  std::string what;
  std::vector<SettingChange> settings;
  std::function<void(Question&)> apply;
  // How much of the request it gives up. The costs of changes made together add up:
  //   1  nothing but an option: the same work on the same devices
  //   2  the work is cut or laid out differently; time for memory
  //   3  other devices, or every activation is computed twice
  //   4  numbers are narrower, or wait in host memory
  //   6  something else is trained, on shorter texts, or on more hosts; each further halving or doubling adds 1
  int cost = 1;
  std::string missing = {};  // the part of it that muster itself cannot do yet: "LoRA"
};

// Alternative changes of one thing: a remedy takes one. The smallest first, and none cheaper than the one before it.
using Family = std::vector<Change>;

// In the order in which people would prefer them; none is empty.
std::vector<Family> possible_changes(const Question& question);

}  // namespace muster::plan
