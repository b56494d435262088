// What the kernel says about this machine: NVIDIA hardware, clock, folders, limits.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "doctor/host_facts.hpp"

namespace muster::doctor {

DriverFacts probe_driver(const std::filesystem::path& proc, const std::filesystem::path& sys,
                         const std::filesystem::path& dev);

// Writes a byte to an unnamed file in it.
FolderFacts probe_folder(std::string purpose, const std::filesystem::path& path);

OpenFilesFacts probe_open_files();

// Compares the two clocks over its own lifetime.
class ClockProbe {
 public:
  ClockProbe();
  // proc: where this program's own file is found.
  ClockFacts finish(const std::filesystem::path& proc) const;

 private:
  std::chrono::system_clock::time_point system_;
  std::chrono::steady_clock::time_point steady_;
};

}  // namespace muster::doctor
