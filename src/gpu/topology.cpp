#include "gpu/topology.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace muster::gpu {
namespace {

// Sets up to this size are searched completely: 16 choose 8 is 12,870 sets.
constexpr std::size_t few = 16;

constexpr std::uint16_t same_numa_node = 5;

}  // namespace

int link_worth(const Link& link) {
  switch (link.kind) {
    case LinkKind::nvlink:
      return 1000 + 10 * std::min(link.lanes, 99);
    case LinkKind::pix:
      return 60;
    case LinkKind::pxb:
      return 50;
    case LinkKind::phb:
      return 40;
    case LinkKind::node:
      return 30;
    case LinkKind::sys:
      return 10;
  }
  return 0;
}

Topology::Topology(std::span<const Gpu> gpus, const std::vector<Link>& links, std::span<const GpuIndex> gpu_of)
    : size_(gpu_of.size()) {
  std::map<GpuIndex, std::vector<std::size_t>> devices_of;
  for (std::size_t device = 0; device < size_; ++device) devices_of[gpu_of[device]].push_back(device);

  std::map<int, int> group_of_node;
  numa_group_.assign(size_, 0);
  std::map<GpuIndex, int> node_of;
  for (const Gpu& gpu : gpus)
    if (gpu.facts.numa_node) node_of[gpu.facts.index] = *gpu.facts.numa_node;
  for (std::size_t device = 0; device < size_; ++device) {
    const auto node = node_of.find(gpu_of[device]);
    const int key =
        node == node_of.end() ? -1 - static_cast<int>(device) : node->second;  // unknown: a group of its own
    numa_group_[device] = group_of_node.try_emplace(key, static_cast<int>(group_of_node.size())).first->second;
  }
  numa_groups_ = static_cast<int>(group_of_node.size());
  knows_anything_ = !links.empty() || !node_of.empty();
  if (!knows_anything_) return;

  scores_.assign(size_ * size_, 0);
  for (std::size_t a = 0; a < size_; ++a)
    for (std::size_t b = 0; b < size_; ++b)
      if (a != b && numa_group_[a] == numa_group_[b]) scores_[a * size_ + b] = same_numa_node;

  std::vector<std::size_t> island(size_);
  std::iota(island.begin(), island.end(), std::size_t{0});
  const auto root = [&](std::size_t device) {
    while (island[device] != device) device = island[device] = island[island[device]];
    return device;
  };
  for (const Link& link : links)
    for (const std::size_t a : devices_of[link.a])
      for (const std::size_t b : devices_of[link.b]) {
        const auto value = static_cast<std::uint16_t>(scores_[a * size_ + b] + link_worth(link));
        scores_[a * size_ + b] = scores_[b * size_ + a] = value;
        if (link.kind == LinkKind::nvlink) island[root(a)] = root(b);
      }
  std::map<std::size_t, int> island_numbers;
  nvlink_island_.assign(size_, 0);
  for (std::size_t device = 0; device < size_; ++device)
    nvlink_island_[device] =
        island_numbers.try_emplace(root(device), static_cast<int>(island_numbers.size())).first->second;
  nvlink_islands_ = static_cast<int>(island_numbers.size());
}

bool Topology::is_uniform(std::span<const int> devices) const {
  const int first = score(devices[0], devices[1]);
  for (std::size_t a = 0; a < devices.size(); ++a)
    for (std::size_t b = a + 1; b < devices.size(); ++b)
      if (score(devices[a], devices[b]) != first) return false;
  return true;
}

std::vector<int> Topology::best_of_few(std::span<const int> devices, std::size_t count) const {
  const std::size_t total = devices.size();
  std::vector<int> everything(devices.begin(), devices.end());
  if (count >= total) return everything;
  if (is_uniform(devices)) return {everything.begin(), everything.begin() + static_cast<std::ptrdiff_t>(count)};

  std::vector<std::size_t> set(count);  // positions in devices, the next combination in lexicographic order
  std::iota(set.begin(), set.end(), std::size_t{0});
  std::vector<std::size_t> best = set;
  std::tuple<int, int> best_score{-1, 0};
  while (true) {
    int inside = 0, torn = 0;
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t j = i + 1; j < count; ++j) inside += score(devices[set[i]], devices[set[j]]);
      for (std::size_t other = 0; other < total; ++other) torn += score(devices[set[i]], devices[other]);
    }
    torn -= 2 * inside;
    if (std::tuple{inside, -torn} > best_score) {
      best_score = {inside, -torn};
      best = set;
    }
    std::size_t last = count;
    while (last > 0 && set[last - 1] == total - count + last - 1) --last;
    if (last == 0) break;
    ++set[last - 1];
    for (std::size_t i = last; i < count; ++i) set[i] = set[i - 1] + 1;
  }
  std::vector<int> chosen;
  for (const std::size_t position : best) chosen.push_back(devices[position]);
  return chosen;
}

std::vector<int> Topology::smallest_group(std::span<const int> devices, std::size_t count,
                                          const std::vector<int>& group_of, int groups) const {
  std::vector<std::size_t> members(static_cast<std::size_t>(groups), 0);
  for (const int device : devices) ++members[static_cast<std::size_t>(group_of[static_cast<std::size_t>(device)])];
  std::size_t best = members.size();
  for (std::size_t group = 0; group < members.size(); ++group)
    if (members[group] >= count && (best == members.size() || members[group] < members[best])) best = group;
  std::vector<int> chosen;
  if (best == members.size()) return chosen;
  for (const int device : devices)
    if (group_of[static_cast<std::size_t>(device)] == static_cast<int>(best)) chosen.push_back(device);
  return chosen;
}

std::vector<int> Topology::best_connected(std::span<const int> devices, std::size_t count) const {
  const std::vector<int> first(devices.begin(),
                               devices.begin() + static_cast<std::ptrdiff_t>(std::min(count, devices.size())));
  if (!knows_anything_ || count >= devices.size() || devices.size() < 2) return first;
  if (devices.size() <= few) return best_of_few(devices, count);
  // Too many sets to try them all: the smallest NVLink island, else the smallest NUMA node, that holds enough.
  std::vector<int> group = smallest_group(devices, count, nvlink_island_, nvlink_islands_);
  if (group.empty()) group = smallest_group(devices, count, numa_group_, numa_groups_);
  if (group.empty()) return first;
  if (group.size() <= few) return best_of_few(group, count);
  group.resize(count);
  return group;
}

}  // namespace muster::gpu
