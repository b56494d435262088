// What the keeper of a job or a trial waits for before it starts anything: the memory of its GPUs' previous holders.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/byte_count.hpp"
#include "base/result.hpp"
#include "host/host.hpp"

namespace muster::host {

// What was in use on a GPU, named by its UUID or its number, when its last holder took it.
struct UsedBefore {
  std::string gpu;
  ByteCount memory;
};

// "GPU-1234=0": as muster gpus await-memory takes it.
std::string to_word(const UsedBefore& used);
Result<UsedBefore> read_used_before(const std::string& word);

// Returns once no more is in use on those GPUs, or living processes account for it; refuses when the time is up.
Result<void> wait_for_memory(const HostSources& sources, const std::vector<UsedBefore>& before,
                             std::chrono::milliseconds most);

// The same for a fork of this process: asks muster gpus await-memory, since the driver's library no longer answers in
// forks of a process that used it.
std::function<Result<void>()> memory_wait(HostSources sources, std::vector<UsedBefore> before,
                                          std::chrono::milliseconds most);

// Variables that make another muster process look where this one does.
std::vector<std::pair<std::string, std::string>> environment_of(const HostSources& sources);

}  // namespace muster::host
