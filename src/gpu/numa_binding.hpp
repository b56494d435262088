// Which CPUs a rank may run on so that it stays near its GPU: torchrun's --numa-binding.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace muster::gpu {

enum class NumaBinding {
  node,          // all CPUs of the GPU's NUMA node
  socket,        // all CPUs of the socket that the node belongs to
  exclusive,     // a share of the node's cores that no other GPU's rank has
  core_complex,  // the cores around one last-level cache of the node
};
std::optional<NumaBinding> parse_numa_binding(std::string_view word);

// The CPUs for each of the GPUs, in their order. nodes: the NUMA node of every visible GPU; absent: not known, which
// means node 0, as on machines with one. allowed: the CPUs this process may use. system is a parameter for tests.
Result<std::vector<std::vector<int>>> bind_cpus(NumaBinding binding, const std::vector<std::optional<int>>& nodes,
                                                const std::vector<int>& allowed,
                                                const std::filesystem::path& system = "/sys/devices/system");

}  // namespace muster::gpu
