#include "service/machine_probe.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "system/file_descriptor.hpp"
#include "system/files.hpp"
#include "base/text.hpp"

namespace muster::service {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code unreadable;
  for (const auto& entry : fs::directory_iterator(folder, unreadable)) entries.push_back(entry.path());
  std::ranges::sort(entries);
  return entries;
}

std::string read_line(const fs::path& file) {
  const auto text = read_file(file);
  return text ? std::string(trim(*text)) : "";
}

// "..Kernel Module  580.159.03  Release Build..": the first word of digits and dots.
std::optional<std::string> module_version(const fs::path& proc) {
  const auto text = read_file(proc / "driver/nvidia/version");
  if (!text) return std::nullopt;
  for (const std::string& word : split(text->substr(0, text->find('\n')), ' '))
    if (word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos) return word;
  return "of unknown version";
}

// The value of "key   number kB" or "key number", in the unit that is written there.
std::optional<std::int64_t> number_after(std::string_view text, std::string_view key) {
  for (const std::string& line : split(text, '\n')) {
    if (!line.starts_with(key)) continue;
    const std::string_view rest = trim(std::string_view(line).substr(key.size()));
    return parse_number<std::int64_t>(rest.substr(0, rest.find(' ')));
  }
  return std::nullopt;
}

std::optional<std::int64_t> number_in(const fs::path& file) { return parse_number<std::int64_t>(read_line(file)); }

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

std::optional<struct statvfs> file_system_of(const fs::path& path) {
  struct statvfs facts = {};
  if (::statvfs(path.c_str(), &facts) != 0) return std::nullopt;
  return facts;
}

ByteCount blocks(fsblkcnt_t count, unsigned long size) {
  return {static_cast<std::int64_t>(count) * static_cast<std::int64_t>(size)};
}

std::optional<std::string> why_not_writable(const fs::path& folder) {
  FileDescriptor file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {  // not every file system has those
    std::string name = (folder / "muster-doctor-XXXXXX").string();
    file = FileDescriptor(::mkostemp(name.data(), O_CLOEXEC));
    if (file) ::unlink(name.c_str());
  }
  if (!file) return system_reason();
  if (::write(file.number(), "x", 1) != 1) return system_reason();
  return std::nullopt;
}

}  // namespace

DriverFacts probe_driver(const fs::path& proc, const fs::path& sys, const fs::path& dev) {
  DriverFacts facts;
  facts.module_version = module_version(proc);
  for (const fs::path& entry : entries_of(dev)) {
    const std::string name = entry.filename();
    const std::string_view digits = std::string_view(name).substr(std::min<std::size_t>(6, name.size()));
    const bool numbered =
        !digits.empty() && std::ranges::all_of(digits, [](unsigned char c) { return std::isdigit(c); });
    if (name.starts_with("nvidia") && numbered) facts.device_files.push_back(entry.string());
  }
  for (const fs::path& entry : entries_of(sys / "bus/pci/devices"))
    if (read_line(entry / "vendor") == "0x10de" && read_line(entry / "class").starts_with("0x03"))
      facts.pci_devices.push_back(entry.filename().string());
  return facts;
}

MemoryFacts probe_memory(const fs::path& proc, const fs::path& sys, const fs::path& dev) {
  MemoryFacts facts;
  if (const auto text = read_file(proc / "meminfo"))
    if (const auto kibibytes = number_after(*text, "MemAvailable:")) facts.available = ByteCount{*kibibytes << 10};
  facts.group_available = left_in_groups(proc, sys);
  if (const auto shared = file_system_of(dev / "shm"))
    facts.shared_file_size = blocks(shared->f_blocks, shared->f_frsize);
  return facts;
}

FolderFacts probe_folder(std::string purpose, const fs::path& path) {
  FolderFacts facts{std::move(purpose), path, std::nullopt, why_not_writable(path)};
  if (const auto system = file_system_of(path)) facts.free = blocks(system->f_bavail, system->f_frsize);
  return facts;
}

OpenFilesFacts probe_open_files() {
  rlimit limit = {};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return {limit.rlim_cur, limit.rlim_max};
}

ClockProbe::ClockProbe() : system_(std::chrono::system_clock::now()), steady_(std::chrono::steady_clock::now()) {}

ClockFacts ClockProbe::finish(const fs::path& proc) const {
  using namespace std::chrono;
  ClockFacts facts;
  const auto system_now = system_clock::now();
  facts.jump = duration_cast<milliseconds>((system_now - system_) - (steady_clock::now() - steady_));
  facts.now = duration_cast<seconds>(system_now.time_since_epoch());
  struct stat program = {};
  if (::stat((proc / "self/exe").c_str(), &program) == 0) facts.program_written = seconds(program.st_mtim.tv_sec);
  timex state = {};
  if (const int answer = ::adjtimex(&state); answer >= 0)
    facts.synchronised = answer != TIME_ERROR && (state.status & STA_UNSYNC) == 0;
  return facts;
}

}  // namespace muster::service
