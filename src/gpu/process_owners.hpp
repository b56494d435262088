// Whose processes use a GPU, where the pid that the driver reports can be trusted.
#pragma once

#include <sys/types.h>

#include <filesystem>

#include "gpu/snapshot.hpp"

namespace muster::gpu {

// Fills in user, command and whether it is exiting. Note [Pids of containers]: the driver reports pids of the initial
// namespace. In another one the same number may be somebody else's process, so it is believed only when that process
// holds an NVIDIA device open.
void add_owner(GpuProcess& process, const std::filesystem::path& proc);

}  // namespace muster::gpu
