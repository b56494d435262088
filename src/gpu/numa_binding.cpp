#include "gpu/numa_binding.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <string>

#include "system/files.hpp"
#include "base/text.hpp"
#include "gpu/cpu_list.hpp"

namespace muster::gpu {
namespace {

using Cpus = std::vector<int>;

struct BindingWord {
  std::string_view word;
  NumaBinding binding;
};
constexpr std::array binding_words{BindingWord{"node", NumaBinding::node}, BindingWord{"socket", NumaBinding::socket},
                                   BindingWord{"exclusive", NumaBinding::exclusive},
                                   BindingWord{"core-complex", NumaBinding::core_complex}};

Error unreadable(const std::filesystem::path& path) {
  return {Error::Kind::refused, fmt::format("{} does not say which CPUs belong together", path.string()),
          "leave --numa-binding out"};
}

// What the kernel tells about the machine's CPUs, limited to those this process may use.
class CpuMap {
 public:
  CpuMap(const std::filesystem::path& system, const Cpus& allowed) : system_(system), allowed_(allowed) {}

  Result<Cpus> list(const std::filesystem::path& file) const {
    const auto text = read_file(system_ / file);
    const auto cpus = text ? parse_cpu_list(trim(*text)) : std::nullopt;
    if (!cpus) return unreadable(system_ / file);
    return *cpus;
  }

  Result<Cpus> of_node(int node) const {
    auto cpus = list(fmt::format("node/node{}/cpulist", node));
    if (!cpus) return cpus;
    std::erase_if(*cpus, [&](int cpu) { return !std::ranges::binary_search(allowed_, cpu); });
    if (cpus->empty())
      return Error{Error::Kind::refused, fmt::format("this process may use no CPU of NUMA node {}", node),
                   "leave --numa-binding out, or start with a wider CPU set"};
    return cpus;
  }

  Result<Cpus> of_socket(int node) const {
    const auto own = of_node(node);
    if (!own) return own;
    const auto socket = socket_of(own->front());
    if (!socket) return socket.error();
    Cpus cpus;
    for (const int cpu : allowed_) {
      const auto other = socket_of(cpu);
      if (!other) return other.error();
      if (*other == *socket) cpus.push_back(cpu);
    }
    return cpus;
  }

  // The node's CPUs by what they share: the lowest CPU that shares it → those that do.
  Result<std::map<int, Cpus>> grouped(int node, const std::function<Result<Cpus>(int)>& sharers) const {
    const auto cpus = of_node(node);
    if (!cpus) return cpus.error();
    std::map<int, Cpus> groups;
    for (const int cpu : *cpus) {
      const auto together = sharers(cpu);
      if (!together) return together.error();
      groups[together->front()].push_back(cpu);
    }
    return groups;
  }

  Result<Cpus> same_core(int cpu) const { return list(fmt::format("cpu/cpu{}/topology/thread_siblings_list", cpu)); }

  Result<Cpus> same_last_cache(int cpu) const {
    const std::filesystem::path folder = fmt::format("cpu/cpu{}/cache", cpu);
    int highest = -1;
    Result<Cpus> sharers = unreadable(system_ / folder);
    for (int index = 0; index < 16; ++index) {
      const std::filesystem::path cache = folder / fmt::format("index{}", index);
      const auto kind = read_file(system_ / cache / "type");
      const auto level_text = read_file(system_ / cache / "level");
      if (!kind || !level_text) break;
      const auto level = parse_number<int>(trim(*level_text));
      if (trim(*kind) == "Instruction" || !level || *level <= highest) continue;
      highest = *level;
      sharers = list(cache / "shared_cpu_list");
    }
    return sharers;
  }

 private:
  Result<int> socket_of(int cpu) const {
    const std::filesystem::path file = fmt::format("cpu/cpu{}/topology/physical_package_id", cpu);
    const auto text = read_file(system_ / file);
    const auto socket = text ? parse_number<int>(trim(*text)) : std::nullopt;
    if (!socket) return unreadable(system_ / file);
    return *socket;
  }

  std::filesystem::path system_;
  const Cpus& allowed_;
};

// Which of the GPUs of its node this is, and how many there are.
struct PlaceOnNode {
  std::size_t position = 0;
  std::size_t count = 0;
};

// The cores are dealt out evenly; the first GPUs get one more where they do not divide.
Result<Cpus> exclusive_share(const CpuMap& map, int node, PlaceOnNode place) {
  const auto cores = map.grouped(node, [&](int cpu) { return map.same_core(cpu); });
  if (!cores) return cores.error();
  const std::size_t each = cores->size() / place.count, extra = cores->size() % place.count;
  if (each == 0)
    return Error{
        Error::Kind::refused,
        fmt::format("NUMA node {} has {} cores and {} GPUs: not one core each", node, cores->size(), place.count),
        "--numa-binding node"};
  const std::size_t first = place.position * each + std::min(place.position, extra);
  const std::size_t last = first + each + (place.position < extra ? 1 : 0);
  Cpus cpus;
  std::size_t position = 0;
  for (const auto& [core, members] : *cores) {
    if (position >= first && position < last) cpus.insert(cpus.end(), members.begin(), members.end());
    ++position;
  }
  std::ranges::sort(cpus);
  return cpus;
}

// One cache's cores for each GPU in turn, the caches with most usable cores first.
Result<Cpus> core_complex(const CpuMap& map, int node, PlaceOnNode place) {
  const auto caches = map.grouped(node, [&](int cpu) { return map.same_last_cache(cpu); });
  if (!caches) return caches.error();
  std::vector<Cpus> ordered;
  for (const auto& [first, members] : *caches) ordered.push_back(members);
  std::ranges::stable_sort(ordered, std::ranges::greater{}, [](const Cpus& cpus) { return cpus.size(); });
  return ordered[place.position % ordered.size()];
}

}  // namespace

std::optional<NumaBinding> parse_numa_binding(std::string_view word) {
  for (const BindingWord& known : binding_words)
    if (known.word == word) return known.binding;
  return std::nullopt;
}

Result<std::vector<Cpus>> bind_cpus(NumaBinding binding, const std::vector<std::optional<int>>& nodes,
                                    const Cpus& allowed, const std::filesystem::path& system) {
  const CpuMap map(system, allowed);
  std::map<int, std::size_t> seen, total;
  for (const auto& node : nodes) ++total[std::max(node.value_or(0), 0)];
  std::vector<Cpus> bound;
  for (const auto& known : nodes) {
    const int node = std::max(known.value_or(0), 0);
    const PlaceOnNode place{seen[node]++, total[node]};
    auto cpus = binding == NumaBinding::node        ? map.of_node(node)
                : binding == NumaBinding::socket    ? map.of_socket(node)
                : binding == NumaBinding::exclusive ? exclusive_share(map, node, place)
                                                    : core_complex(map, node, place);
    if (!cpus) return cpus.error();
    bound.push_back(std::move(*cpus));
  }
  return bound;
}

}  // namespace muster::gpu
