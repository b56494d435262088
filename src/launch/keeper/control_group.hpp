// A control group (cgroup v2) for the ranks and all they start: whatever a process does, it does not leave its group,
// so that one write kills them all. Where the kernel or the permissions do not allow it there is none, and the rest
// works without.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "system/file_descriptor.hpp"
#include "system/process.hpp"

namespace muster::launch {

class ControlGroup {
 public:
  // A new group "muster-<owner>" inside the one this process is in, if processes can live there. Empty groups whose
  // owner is gone are removed. To be called while this process has no threads: it forks.
  static std::optional<ControlGroup> create(const ProcessIdentity& owner);
  // The group that the owner made inside the one this process is in.
  static std::optional<ControlGroup> open(const ProcessIdentity& owner);
  ControlGroup(ControlGroup&&) noexcept = default;
  ControlGroup& operator=(ControlGroup&&) noexcept = default;

  // As ::fork(), and the child is born inside. (To move it in later would make the kernel wait for milliseconds.) To be
  // called while this process has no threads.
  pid_t fork_inside() const;
  // SIGKILL to every process inside, at once: none can escape by forking. False where the kernel is older than 5.14.
  bool kill();
  // kill() was called; nobody can be born inside any more: Note [Spent control group].
  bool is_spent() const { return spent_; }
  // The processes inside, groups that they made inside it included.
  std::vector<pid_t> members() const;
  // With the groups inside it, if no process is left in them. Never waits.
  void remove() const;

 private:
  ControlGroup(std::filesystem::path path, FileDescriptor folder);
  std::filesystem::path path_;
  FileDescriptor folder_;
  bool spent_ = false;
};

// The folder of the group a process is in, from its /proc/<pid>/mountinfo and /proc/<pid>/cgroup; nothing where there
// is no cgroup v2, or the mounted part of it does not show that group.
std::optional<std::filesystem::path> control_group_folder(std::string_view mountinfo, std::string_view cgroup);

}  // namespace muster::launch
