#include "system/allotted_cores.hpp"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "system/files.hpp"
#include "base/text.hpp"

namespace muster {
namespace {

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

// The smallest quota of the group and its ancestors.
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

std::vector<int> allowed_cpus() {
  // Machines with more CPUs than the set can name make the call fail with EINVAL: try larger ones.
  for (std::size_t count = 1024; count <= (std::size_t{1} << 20); count *= 2) {
    std::vector<unsigned long> words(count / (8 * sizeof(unsigned long)));
    auto* set = reinterpret_cast<cpu_set_t*>(words.data());
    if (::sched_getaffinity(0, count / 8, set) != 0) continue;
    std::vector<int> cpus;
    for (std::size_t cpu = 0; cpu < count; ++cpu)
      if (CPU_ISSET_S(cpu, count / 8, set)) cpus.push_back(static_cast<int>(cpu));
    return cpus;
  }
  return {};
}

int allotted_cores(const std::filesystem::path& root) {
  const int cpus = std::max(static_cast<int>(allowed_cpus().size()), 1);
  const auto quota = control_group_quota(root);
  return quota ? std::clamp(static_cast<int>(std::ceil(*quota)), 1, cpus) : cpus;
}

}  // namespace muster
