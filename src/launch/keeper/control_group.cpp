#include "launch/keeper/control_group.hpp"

#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <system_error>

#include "system/files.hpp"
#include "base/text.hpp"

namespace muster::launch {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view name_prefix = "muster-";

fs::path group_name(const ProcessIdentity& owner) { return std::string(name_prefix) + to_string(owner); }

// mountinfo writes a blank as \040, and other bytes that would confuse it likewise.
std::string unescaped(std::string_view text) {
  std::string plain;
  while (!text.empty()) {
    unsigned int byte = 0;
    if (text.size() >= 4 && text.front() == '\\' &&
        std::from_chars(text.data() + 1, text.data() + 4, byte, 8).ptr == text.data() + 4) {
      plain += static_cast<char>(byte);
      text.remove_prefix(4);
    } else {
      plain += text.front();
      text.remove_prefix(1);
    }
  }
  return plain;
}

// "0::/user.slice/session-3.scope" is the line of version 2.
std::optional<fs::path> own_path(std::string_view cgroup) {
  for (const std::string& line : split(cgroup, '\n'))
    if (line.starts_with("0::/")) return line.substr(3);
  return std::nullopt;
}

struct Mount {
  fs::path shown;  // which group the mount point shows: "/", unless a part was mounted
  fs::path point;
};

// "35 24 0:30 /shown /point rw,nosuid - cgroup2 cgroup2 rw": what stands before the dash varies in number.
std::optional<Mount> group_mount(std::string_view mountinfo) {
  for (const std::string& line : split(mountinfo, '\n')) {
    if (line.find(" - cgroup2 ") == std::string::npos) continue;
    const std::vector<std::string> words = split(line, ' ');
    if (words.size() > 4) return Mount{unescaped(words[3]), unescaped(words[4])};
  }
  return std::nullopt;
}

std::optional<fs::path> own_folder() {
  const auto mountinfo = read_file("/proc/self/mountinfo");
  const auto cgroup = read_file("/proc/self/cgroup");
  if (!mountinfo || !cgroup) return std::nullopt;
  return control_group_folder(*mountinfo, *cgroup);
}

std::vector<fs::path> groups_in(const fs::path& folder) {
  std::vector<fs::path> groups;
  std::error_code failure;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end; entry.increment(failure)) {
    std::error_code ignored;
    if (entry->is_directory(ignored)) groups.push_back(entry->path());
  }
  return groups;
}

// Innermost first. The kernel refuses to remove a group with processes in it.
void remove_with_inner_groups(const fs::path& folder) {
  if (::rmdir(folder.c_str()) == 0) return;
  for (const fs::path& inner : groups_in(folder)) remove_with_inner_groups(inner);
  ::rmdir(folder.c_str());
}

void collect_members(const fs::path& folder, std::vector<pid_t>& members) {
  if (const auto text = read_file(folder / "cgroup.procs"))
    for (const std::string& line : split(*text, '\n'))
      if (const auto pid = parse_number<pid_t>(line)) members.push_back(*pid);
  for (const fs::path& inner : groups_in(folder)) collect_members(inner, members);
}

void remove_groups_without_owner(const fs::path& folder) {
  for (const fs::path& group : groups_in(folder)) {
    const std::string name = group.filename().string();
    if (!name.starts_with(name_prefix)) continue;
    const auto owner = parse_identity(std::string_view(name).substr(name_prefix.size()));
    if (!owner) continue;
    const auto status = read_process_status(owner->pid);
    if (!status || status->identity != *owner) remove_with_inner_groups(group);
  }
}

// Note [Spent control group]
// Kernels since 6.14, and older ones with their later fixes, kill a process at its birth into a group
// (CLONE_INTO_CGROUP) in which cgroup.kill was used before: they compare how often that was done in the new group and
// in the parent's. So a group is not used again after a kill, and a new one is tried out first: this process may itself
// be in a group that was killed once, before it came.
bool lets_processes_live(const ControlGroup& group) {
  const pid_t child = group.fork_inside();
  if (child == 0) ::_exit(0);
  int status = 0;
  return child > 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status);
}

}  // namespace

std::optional<fs::path> control_group_folder(std::string_view mountinfo, std::string_view cgroup) {
  const auto path = own_path(cgroup);
  const auto mount = group_mount(mountinfo);
  if (!path || !mount) return std::nullopt;
  const fs::path below = path->lexically_relative(mount->shown);
  if (below.empty() || *below.begin() == "..") return std::nullopt;
  return (mount->point / below).lexically_normal();
}

ControlGroup::ControlGroup(fs::path path, FileDescriptor folder) : path_(std::move(path)), folder_(std::move(folder)) {}

std::optional<ControlGroup> ControlGroup::create(const ProcessIdentity& owner) {
  const auto folder = own_folder();
  if (!folder || ::access(folder->c_str(), W_OK) != 0) return std::nullopt;
  remove_groups_without_owner(*folder);
  if (::mkdir((*folder / group_name(owner)).c_str(), 0755) != 0) return std::nullopt;
  auto group = open(owner);
  if (!group || lets_processes_live(*group)) return group;
  group->remove();
  return std::nullopt;
}

std::optional<ControlGroup> ControlGroup::open(const ProcessIdentity& owner) {
  const auto folder = own_folder();
  if (!folder) return std::nullopt;
  fs::path path = *folder / group_name(owner);
  FileDescriptor opened(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!opened) return std::nullopt;
  return ControlGroup(std::move(path), std::move(opened));
}

pid_t ControlGroup::fork_inside() const {
  clone_args arguments{};
  arguments.flags = CLONE_INTO_CGROUP;
  arguments.exit_signal = SIGCHLD;
  arguments.cgroup = static_cast<decltype(arguments.cgroup)>(folder_.number());
  return static_cast<pid_t>(::syscall(SYS_clone3, &arguments, sizeof arguments));
}

bool ControlGroup::kill() {
  spent_ = true;
  const FileDescriptor order(::openat(folder_.number(), "cgroup.kill", O_WRONLY | O_CLOEXEC));
  return order && ::write(order.number(), "1", 1) == 1;
}

std::vector<pid_t> ControlGroup::members() const {
  std::vector<pid_t> members;
  collect_members(path_, members);
  return members;
}

void ControlGroup::remove() const { remove_with_inner_groups(path_); }

}  // namespace muster::launch
