#include "host/host_memory.hpp"

#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "system/files.hpp"

namespace muster::host {
namespace {

namespace fs = std::filesystem;

// The value of "key   number kB" or "key number", in the unit that is written there.
std::optional<std::int64_t> number_after(std::string_view text, std::string_view key) {
  for (const std::string& line : split(text, '\n')) {
    if (!line.starts_with(key)) continue;
    const std::string_view rest = trim(std::string_view(line).substr(key.size()));
    return parse_number<std::int64_t>(rest.substr(0, rest.find(' ')));
  }
  return std::nullopt;
}

std::optional<std::int64_t> number_in(const fs::path& file) {
  const auto text = read_file(file);
  return text ? parse_number<std::int64_t>(trim(*text)) : std::nullopt;
}

// The two generations of memory control groups.
struct GroupKind {
  std::string_view controllers;  // in /proc/self/cgroup: "4:memory:/path", or "0::/path"
  std::string_view folder;       // below /sys/fs/cgroup
  std::string_view limit;
  std::string_view usage;
  std::string_view reclaimable;  // in memory.stat: file pages that are freed on demand
};
constexpr std::array group_kinds{
    GroupKind{"", "", "memory.max", "memory.current", "inactive_file "},
    GroupKind{"memory", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "},
};

std::optional<ByteCount> left_in_group(const fs::path& folder, const GroupKind& kind) {
  // Version 1 writes "no limit" as a number near 2^63.
  constexpr std::int64_t no_limit = std::int64_t{1} << 60;
  const auto limit = number_in(folder / kind.limit), usage = number_in(folder / kind.usage);
  if (!limit || !usage || *limit >= no_limit) return std::nullopt;
  const auto statistics = read_file(folder / "memory.stat");
  const std::int64_t reclaimable = statistics ? number_after(*statistics, kind.reclaimable).value_or(0) : 0;
  return ByteCount{std::max<std::int64_t>(0, *limit - std::max<std::int64_t>(0, *usage - reclaimable))};
}

// The least that this group and its ancestors leave.
std::optional<ByteCount> left_in_groups(const fs::path& proc, const fs::path& sys) {
  std::optional<ByteCount> least;
  const auto groups = read_file(proc / "self/cgroup");
  if (!groups) return least;
  for (const std::string& line : split(*groups, '\n')) {
    const std::vector<std::string> parts = split(line, ':');
    if (parts.size() < 3) continue;
    for (const GroupKind& kind : group_kinds) {
      const std::vector<std::string> controllers = split(parts[1], ',');
      if (std::ranges::count(controllers, kind.controllers) == 0) continue;
      const fs::path top = sys / "fs/cgroup" / kind.folder;
      fs::path inner = fs::path(parts[2]).relative_path();
      while (true) {
        if (const auto left = left_in_group(top / inner, kind); left && (!least || *left < *least)) least = left;
        if (inner.empty()) break;
        inner = inner.parent_path();
      }
    }
  }
  return least;
}

}  // namespace

MemoryFacts probe_memory(const fs::path& proc, const fs::path& sys, const fs::path& dev) {
  MemoryFacts facts;
  if (const auto text = read_file(proc / "meminfo"))
    if (const auto kibibytes = number_after(*text, "MemAvailable:")) facts.available = ByteCount{*kibibytes << 10};
  facts.group_available = left_in_groups(proc, sys);
  if (struct statvfs shared = {}; ::statvfs((dev / "shm").c_str(), &shared) == 0)
    facts.shared_file_size = ByteCount{static_cast<std::int64_t>(shared.f_blocks * shared.f_frsize)};
  return facts;
}

std::optional<std::int64_t> free_host_memory() {
  const MemoryFacts memory = probe_memory("/proc", "/sys", "/dev");
  return memory.available ? std::optional(memory.available->value) : std::nullopt;
}

std::optional<std::int64_t> host_memory_of_this_process() {
  const MemoryFacts memory = probe_memory("/proc", "/sys", "/dev");
  if (!memory.available) return std::nullopt;
  return std::min(memory.available->value, memory.group_available.value_or(*memory.available).value);
}

}  // namespace muster::host
