// How well a set of devices is connected. Prepared once per snapshot, then asked many times.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gpu/snapshot.hpp"

namespace muster::gpu {

// How good a link is, for comparison with others: NVLink, and more of it, before PCIe.
int link_worth(const Link& link);

class Topology {
 public:
  Topology() = default;
  // gpu_of[i] is the GPU behind device i.
  Topology(std::span<const Gpu> gpus, const std::vector<Link>& links, std::span<const GpuIndex> gpu_of);

  // The `count` best connected of these devices (positions, ascending), ascending. Best: NVLink before PCIe, one NUMA
  // node before two; among equals the set whose loss breaks the fewest good links of the others, then the lowest.
  std::vector<int> best_connected(std::span<const int> devices, std::size_t count) const;

 private:
  int score(int a, int b) const { return scores_[static_cast<std::size_t>(a) * size_ + static_cast<std::size_t>(b)]; }
  bool is_uniform(std::span<const int> devices) const;
  std::vector<int> best_of_few(std::span<const int> devices, std::size_t count) const;
  std::vector<int> smallest_group(std::span<const int> devices, std::size_t count, const std::vector<int>& group_of,
                                  int groups) const;

  std::size_t size_ = 0;
  bool knows_anything_ = false;
  std::vector<std::uint16_t> scores_;  // size_ × size_, higher is better
  std::vector<int> nvlink_island_;     // device → which set of devices joined by NVLink
  int nvlink_islands_ = 0;
  std::vector<int> numa_group_;  // device → which NUMA node, renumbered from 0
  int numa_groups_ = 0;
};

}  // namespace muster::gpu
