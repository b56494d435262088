#include "launch/keeper/descendants.hpp"

#include <dirent.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <unordered_map>

#include "system/files.hpp"
#include "system/process_handle.hpp"
#include "base/text.hpp"

namespace muster::launch {
namespace {

// The entries of a folder of /proc whose names are numbers.
std::vector<pid_t> numbered_entries(const char* folder) {
  std::vector<pid_t> numbers;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(folder), ::closedir);
  if (!entries) return numbers;
  while (const dirent* entry = ::readdir(entries.get()))
    if (const auto number = parse_number<pid_t>(entry->d_name)) numbers.push_back(*number);
  return numbers;
}

std::unordered_multimap<pid_t, ProcessStatus> processes_by_parent() {
  std::unordered_multimap<pid_t, ProcessStatus> processes;
  for (const pid_t pid : numbered_entries("/proc"))
    if (const auto status = read_process_status(pid)) processes.emplace(status->parent, *status);
  return processes;
}

// Note [Verified descendants]
// A snapshot of /proc is read over a stretch of time, in which processes end and their numbers go to others.
// Descendants are therefore verified from the top down, after the snapshot: a handle is opened, and the status is read
// once more. If start and parent are those of the snapshot, then
//   - the status is that of the process the handle means, or that process is gone, and a signal through the handle
//     reaches nobody: a number goes to nobody else while its process lives;
//   - its parent's number meant, when the snapshot was taken, the process that was verified before it, since that one
//     was still alive afterwards. So it does descend from the root.
FileDescriptor open_verified(const ProcessStatus& seen) {
  FileDescriptor handle = open_process(seen.identity.pid);
  if (!handle) return handle;
  const auto now = read_process_status(seen.identity.pid);
  if (!now || now->identity != seen.identity || now->parent != seen.parent) return FileDescriptor();
  return handle;
}

// The kernel's own list where it keeps one (CONFIG_PROC_CHILDREN): far cheaper than a look at every process.
bool read_children(std::vector<pid_t>& children) {
  for (const pid_t thread : numbered_entries("/proc/self/task")) {
    const auto list = read_file(fmt::format("/proc/self/task/{}/children", thread));
    if (!list) return false;
    for (const std::string& word : split(*list, ' '))
      if (const auto pid = parse_number<pid_t>(word)) children.push_back(*pid);
  }
  return true;
}

}  // namespace

std::vector<Descendant> find_descendants(pid_t root) {
  const auto by_parent = processes_by_parent();
  std::vector<Descendant> found;
  const auto add_children = [&](pid_t parent, std::optional<pid_t> top) {
    const auto [first, last] = by_parent.equal_range(parent);
    for (auto child = first; child != last; ++child) {
      const ProcessStatus& status = child->second;
      if (FileDescriptor handle = open_verified(status))
        found.push_back({status, top.value_or(status.identity.pid), std::move(handle)});
    }
  };
  add_children(root, std::nullopt);
  for (std::size_t next = 0; next < found.size(); ++next)
    add_children(found[next].status.identity.pid, found[next].top);
  return found;
}

std::vector<pid_t> children_of_this_process() {
  std::vector<pid_t> children;
  if (read_children(children)) return children;
  children.clear();
  const auto by_parent = processes_by_parent();
  const auto [first, last] = by_parent.equal_range(::getpid());
  for (auto child = first; child != last; ++child) children.push_back(child->second.identity.pid);
  return children;
}

std::optional<ProcessStatus> kill_child_with_group(pid_t child) {
  ::kill(child, SIGKILL);
  const auto status = read_process_status(child);
  // Dying or dead, it does not leave its group, whose number therefore goes to no other one before we have reaped it.
  // A group has members of one session only, and a session that began below us has only what descends from there.
  if (status && status->group > 1 && status->session != ::getsid(0)) ::kill(-status->group, SIGKILL);
  return status;
}

}  // namespace muster::launch
