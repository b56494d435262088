// The checks of `muster doctor`, one function each; doctor.cpp puts them in order.
#pragma once

#include <string>

#include "doctor/doctor.hpp"

namespace muster::doctor {

// A check that looks at several things: the worst outcome counts, findings and remedies add up.
class Verdict {
 public:
  explicit Verdict(std::string name) { check_.name = std::move(name); }

  void pass(const std::string& finding) { add(CheckOutcome::pass, finding, ""); }
  void warn(const std::string& finding, const std::string& remedy) { add(CheckOutcome::warning, finding, remedy); }
  void fail(const std::string& finding, const std::string& remedy) { add(CheckOutcome::failure, finding, remedy); }
  Check take() { return std::move(check_); }

 private:
  void add(CheckOutcome outcome, const std::string& finding, const std::string& remedy);

  Check check_;
};

// gpu_checks.cpp
Check check_driver(const HostFacts& facts);
Check check_nvml(const HostFacts& facts);
Check check_inventory(const HostFacts& facts);
Check check_mask(const HostFacts& facts);
Check check_device_order(const HostFacts& facts);
Check check_leases(const HostFacts& facts);

// machine_checks.cpp
Check check_clock(const HostFacts& facts);
Check check_memory(const HostFacts& facts);
Check check_disk(const HostFacts& facts);
Check check_ports(const HostFacts& facts);
Check check_open_files(const HostFacts& facts);
Check check_instruction_sets(const HostFacts& facts);
Check check_sandbox(const HostFacts& facts);

// worker_check.cpp
Check check_workers(const HostFacts& facts);

// collective_check.cpp
Check check_collectives(const HostFacts& facts);

// generation_check.cpp
Check check_generation(const HostFacts& facts);

}  // namespace muster::doctor
