#include "base/allotted_cores.hpp"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "base/text.hpp"

namespace muster {
namespace {

int runnable_cpus() {
  // Machines with more CPUs than the set can name make the call fail with EINVAL: try larger ones.
  for (std::size_t cpus = 1024; cpus <= (std::size_t{1} << 20); cpus *= 2) {
    std::vector<unsigned long> words(cpus / (8 * sizeof(unsigned long)));
    auto* set = reinterpret_cast<cpu_set_t*>(words.data());
    if (::sched_getaffinity(0, cpus / 8, set) == 0) return CPU_COUNT_S(cpus / 8, set);
  }
  return 1;
}

std::optional<double> number_in(const std::filesystem::path& file) {
  const auto text = read_file(file);
  return text ? parse_number<double>(trim(*text)) : std::nullopt;
}

// "200000 100000" → 2; "max 100000" → nothing.
std::optional<double> quota_of_unified(const std::filesystem::path& group) {
  const auto text = read_file(group / "cpu.max");
  if (!text) return std::nullopt;
  const std::vector<std::string> parts = split(trim(*text), ' ');
  if (parts.size() != 2) return std::nullopt;
  const auto quota = parse_number<double>(parts[0]), period = parse_number<double>(parts[1]);
  return quota && period && *quota > 0 && *period > 0 ? std::optional(*quota / *period) : std::nullopt;
}

std::optional<double> quota_of_legacy(const std::filesystem::path& group) {
  const auto quota = number_in(group / "cpu.cfs_quota_us"), period = number_in(group / "cpu.cfs_period_us");
  return quota && period && *quota > 0 && *period > 0 ? std::optional(*quota / *period) : std::nullopt;
}

// The smallest quota of the group and those above it.
template <class Quota>
std::optional<double> smallest_quota(const std::filesystem::path& top, std::string_view group, const Quota& quota_of) {
  std::optional<double> smallest;
  std::filesystem::path path = std::filesystem::path(group).relative_path();
  while (true) {
    if (const auto quota = quota_of(top / path); quota && (!smallest || *quota < *smallest)) smallest = quota;
    if (path.empty()) return smallest;
    path = path.parent_path();
  }
}

std::optional<double> control_group_quota(const std::filesystem::path& root) {
  const auto groups = read_file(root / "proc/self/cgroup");
  if (!groups) return std::nullopt;
  std::optional<double> smallest;
  const auto keep = [&](std::optional<double> quota) {
    if (quota && (!smallest || *quota < *smallest)) smallest = quota;
  };
  for (const std::string& line : split(*groups, '\n')) {
    const std::vector<std::string> parts = split(line, ':');  // number:controllers:path
    if (parts.size() != 3) continue;
    if (parts[1].empty())
      keep(smallest_quota(root / "sys/fs/cgroup", parts[2], quota_of_unified));
    else if (const auto controllers = split(parts[1], ','); std::ranges::find(controllers, "cpu") != controllers.end())
      for (const std::string& folder : {parts[1], std::string("cpu")})
        keep(smallest_quota(root / "sys/fs/cgroup" / folder, parts[2], quota_of_legacy));
  }
  return smallest;
}

}  // namespace

int allotted_cores(const std::filesystem::path& root) {
  const int cpus = runnable_cpus();
  const auto quota = control_group_quota(root);
  if (!quota) return std::max(cpus, 1);
  return std::clamp(static_cast<int>(std::ceil(*quota)), 1, std::max(cpus, 1));
}

}  // namespace muster
