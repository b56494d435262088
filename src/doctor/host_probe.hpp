// Gathers the facts that `muster doctor` judges. Nothing here stops at a failure: a failure is a fact, too.
#pragma once

#include <chrono>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "doctor/host_facts.hpp"
#include "host/host.hpp"
#include "system/instruction_sets.hpp"

namespace muster::doctor {

// Where the probe looks; parameters for tests.
struct ProbeSettings {
  std::filesystem::path proc = "/proc";
  std::filesystem::path sys = "/sys";
  std::filesystem::path dev = "/dev";
  std::filesystem::path working_folder = ".";
  std::filesystem::path temporary_folder = "/tmp";
  // This program, in the form that prints worker_report; even if its file was replaced or removed since it started.
  std::vector<std::string> worker = {"/proc/self/exe", "doctor", "--report-worker"};
  // A driver without persistence takes seconds to wake up eight GPUs.
  std::chrono::milliseconds worker_limit{30000};
  std::chrono::milliseconds name_limit{1000};
  std::chrono::milliseconds loopback_limit{500};
  std::span<const InstructionSet> instruction_sets = known_instruction_sets();
  bool collectives = false;  // start ranks of muster-worker; only while this process has one thread
};

// Everything, in the working folder of this process, and the temporary folder that TMPDIR names.
ProbeSettings settings_from_environment();

HostFacts probe_host(const host::HostSources& sources, const ProbeSettings& settings);

}  // namespace muster::doctor
