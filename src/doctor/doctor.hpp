// Judges a machine: whether the work that muster starts can run here, and what to type where it cannot. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor/host_facts.hpp"

namespace muster::doctor {

// In order of severity.
enum class CheckOutcome { pass, warning, failure };

struct Check {
  std::string name;
  CheckOutcome outcome = CheckOutcome::pass;
  std::string finding;  // what was seen, with the numbers
  std::string remedy;   // what to type next; empty only if it passed
};

// "pass", "warning", "failure".
std::string_view to_string(CheckOutcome outcome);

// Every check, in the order in which they are read: docs/doctor.md lists them.
std::vector<Check> examine(const HostFacts& facts);

}  // namespace muster::doctor
