#include "launch/keeper/oom_kills.hpp"

#include "system/files.hpp"
#include "base/text.hpp"

namespace muster::launch {
namespace {

// The value after "oom_kill " in a file of such lines.
std::uint64_t count_in(const std::filesystem::path& file) {
  const auto text = read_file(file);
  if (!text) return 0;
  for (const std::string& line : split(*text, '\n'))
    if (line.starts_with("oom_kill ")) return parse_number<std::uint64_t>(line.substr(9)).value_or(0);
  return 0;
}

}  // namespace

std::uint64_t oom_kills(const std::filesystem::path& root) {
  std::uint64_t kills = count_in(root / "proc/vmstat");
  const auto groups = read_file(root / "proc/self/cgroup");
  if (!groups) return kills;
  for (const std::string& line : split(*groups, '\n')) {
    const std::vector<std::string> parts = split(line, ':');  // number:controllers:path
    if (parts.size() != 3) continue;
    const std::filesystem::path group = std::filesystem::path(parts[2]).relative_path();
    if (parts[1].empty()) kills += count_in(root / "sys/fs/cgroup" / group / "memory.events");
    if (parts[1] == "memory") kills += count_in(root / "sys/fs/cgroup/memory" / group / "memory.oom_control");
  }
  return kills;
}

}  // namespace muster::launch
