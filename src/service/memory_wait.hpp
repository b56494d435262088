// What the keeper of a job or a trial waits for before it starts anything: the memory of those who had its GPUs before.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/byte_count.hpp"
#include "base/result.hpp"
#include "service/host.hpp"

namespace muster::service {

// What was in use on a GPU, called by its UUID or its number, when those came who had it last.
struct UsedBefore {
  std::string gpu;
  ByteCount memory;
};

// "GPU-1234=0": as muster gpus await-memory takes it.
std::string to_word(const UsedBefore& used);
Result<UsedBefore> read_used_before(const std::string& word);

// Returns once no more is in use on those GPUs, or living processes account for what is; refuses after so long.
Result<void> wait_for_memory(const HostSources& sources, const std::vector<UsedBefore>& before,
                             std::chrono::milliseconds most);

// The same for a fork of this process: asks muster gpus await-memory, since the driver's library answers no more in
// forks of a process that used it.
std::function<Result<void>()> memory_wait(HostSources sources, std::vector<UsedBefore> before,
                                          std::chrono::milliseconds most);

// Variables with which a process of muster's own looks where this one does.
std::vector<std::pair<std::string, std::string>> environment_of(const HostSources& sources);

}  // namespace muster::service
