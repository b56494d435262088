#include "launch/keeper/detached_process.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "system/files.hpp"
#include "base/text.hpp"
#include "launch/keeper/control_group.hpp"

namespace muster::launch {
namespace {

constexpr std::string_view mark = "MUSTER_KEEPER=";

// What others see of a process's environment is the block that it was started with, whatever it has changed since. So
// the mark is wiped out there.
void wipe_mark() {
  ::unsetenv("MUSTER_KEEPER");
  constexpr std::size_t environment_begins = 50, environment_ends = 51, first_after_name = 3;  // proc(5) counts from 1
  const auto status = read_file("/proc/self/stat");
  if (!status) return;
  const auto fields = split(std::string_view(*status).substr(status->rfind(')') + 2), ' ');
  if (fields.size() <= environment_ends - first_after_name) return;
  const auto begin = parse_number<std::uintptr_t>(fields[environment_begins - first_after_name]);
  const auto end = parse_number<std::uintptr_t>(trim(fields[environment_ends - first_after_name]));
  if (!begin || !end || *begin == 0 || *begin >= *end) return;
  char* block = reinterpret_cast<char*>(*begin);
  for (std::size_t left = *end - *begin; left > 0;) {
    const std::size_t length = std::min(std::string_view(block, left).find('\0'), left);
    if (std::string_view(block, length).starts_with(mark)) std::fill_n(block, length, '\0');
    const std::size_t step = std::min(length + 1, left);
    block += step;
    left -= step;
  }
}

// Groups of launches are called muster-…, and lie in the group of whoever started the launch.
void leave_control_group() {
  const auto mountinfo = read_file("/proc/self/mountinfo");
  const auto cgroup = read_file("/proc/self/cgroup");
  if (!mountinfo || !cgroup) return;
  auto folder = control_group_folder(*mountinfo, *cgroup);
  if (!folder || !folder->filename().string().starts_with("muster-")) return;
  while (folder->filename().string().starts_with("muster-")) *folder = folder->parent_path();
  std::ofstream(*folder / "cgroup.procs") << "0\n";
}

bool is_same_program(pid_t pid) {
  struct stat own = {}, other = {};
  return ::stat("/proc/self/exe", &own) == 0 && ::stat(fmt::format("/proc/{}/exe", pid).c_str(), &other) == 0 &&
         own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

}  // namespace

void detach_process(const char* name) {
  ::prctl(PR_SET_NAME, name);
  wipe_mark();
  leave_control_group();
}

bool is_detached(pid_t pid) {
  const auto name = read_file(fmt::format("/proc/{}/comm", pid));
  if (!name || (trim(*name) != detached_queue && trim(*name) != detached_job)) return false;
  return is_same_program(pid);
}

}  // namespace muster::launch
