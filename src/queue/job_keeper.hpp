// The process between the conductor and a job's command. It outlives the conductor, unless its order says otherwise: it
// holds the attempt's lock and the GPU leases, ends everything the command left behind, and records how it ended.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "system/file_descriptor.hpp"
#include "base/result.hpp"
#include "queue/gpu_source.hpp"

namespace muster::queue {

struct KeeperOrder {
  std::vector<std::string> command;
  std::vector<std::string> environment;  // complete: "NAME=value"
  std::string folder;
  unsigned int umask = 022;
  std::filesystem::path log;
  FileDescriptor attempt;  // the attempt's file, locked
  GpuGrant grant;
  std::chrono::milliseconds grace{10000};  // between SIGTERM and SIGKILL
  std::uint64_t oom_kills = 0;          // the kernel's count of them before it begins: launch/keeper/oom_kills.hpp
  std::vector<int> locks = {};             // further descriptors that the keeper and the command hold
  std::optional<pid_t> ends_with = {};     // its parent: when that is gone, the command is killed
};

// Forks; to be called by a process without threads. SIGTERM to the keeper ends the job. It keeps nothing of this
// process open except what the order names. An Error is always a shortage of processes or memory: no keeper runs.
Result<pid_t> start_keeper(KeeperOrder order);

}  // namespace muster::queue
