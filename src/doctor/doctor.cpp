#include "doctor/doctor.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "doctor/checks.hpp"

namespace muster::doctor {
namespace {

constexpr std::array checks{check_driver,       check_nvml,        check_inventory,  check_mask,
                            check_device_order, check_leases,      check_clock,      check_memory,
                            check_disk,         check_ports,       check_open_files, check_instruction_sets,
                            check_sandbox,      check_workers,     check_collectives, check_generation};

}  // namespace

void Verdict::add(CheckOutcome outcome, const std::string& finding, const std::string& remedy) {
  if (outcome != CheckOutcome::pass && remedy.empty())
    throw std::logic_error(check_.name + ": a finding without a remedy");
  check_.outcome = std::max(check_.outcome, outcome);
  check_.finding += (check_.finding.empty() || finding.empty() ? "" : "; ") + finding;
  if (!remedy.empty() && check_.remedy.find(remedy) == std::string::npos)
    check_.remedy += (check_.remedy.empty() ? "" : "; ") + remedy;
}

std::string_view to_string(CheckOutcome outcome) {
  switch (outcome) {
    case CheckOutcome::pass:
      return "pass";
    case CheckOutcome::warning:
      return "warning";
    case CheckOutcome::failure:
      return "failure";
  }
  throw std::logic_error("an outcome outside its enumeration");
}

std::vector<Check> examine(const HostFacts& facts) {
  std::vector<Check> found;
  for (const auto check : checks) found.push_back(check(facts));
  return found;
}

}  // namespace muster::doctor
