#include "launch/keeper/orphans.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "launch/keeper/detached_process.hpp"
#include "launch/keeper/control_group.hpp"
#include "launch/keeper/descendants.hpp"
#include "launch/keeper/keeper_mark.hpp"

namespace muster::launch {
namespace {

class OrphanedProcesses {
 public:
  OrphanedProcesses(const ProcessIdentity& keeper, const std::set<pid_t>& sessions)
      : keeper_(keeper), sessions_(sessions), group_(ControlGroup::open(keeper)) {}
  ~OrphanedProcesses() {
    if (group_) group_->remove();
  }
  OrphanedProcesses(const OrphanedProcesses&) = delete;
  OrphanedProcesses& operator=(const OrphanedProcesses&) = delete;

  enum class Found { none, only_dying, living };

  // Kills those that are there now. Their children fall to us next.
  Found kill_some() {
    std::vector<pid_t> members;
    if (group_) {
      group_->kill();
      members = group_->members();
    }
    Found found = members.empty() ? Found::none : Found::only_dying;
    for (const pid_t child : children_of_this_process()) {
      const auto status = read_process_status(child);
      if (!status || !is_orphan(*status, members)) continue;
      kill_child_with_group(child);
      if (killed_.insert(status->identity).second)
        found = Found::living;
      else if (found == Found::none)
        found = Found::only_dying;
      ::waitpid(child, nullptr, WNOHANG);
    }
    return found;
  }

 private:
  // A dead or dying process has no environment any more. That it was one of them is remembered, or follows from its
  // session: what this process starts itself stays in its own.
  bool is_orphan(const ProcessStatus& status, const std::vector<pid_t>& members) const {
    if (is_detached(status.identity.pid)) return false;
    return killed_.contains(status.identity) || sessions_.contains(status.session) ||
           (status.exiting && status.session != ::getsid(0)) ||
           std::ranges::find(members, status.identity.pid) != members.end() ||
           carries_mark(status.identity.pid, keeper_);
  }

  const ProcessIdentity keeper_;
  const std::set<pid_t>& sessions_;
  std::optional<ControlGroup> group_;
  std::set<ProcessIdentity> killed_;
};

}  // namespace

void kill_orphans(const ProcessIdentity& keeper, const std::set<pid_t>& sessions,
                 std::chrono::steady_clock::time_point deadline) {
  OrphanedProcesses fallen(keeper, sessions);
  while (std::chrono::steady_clock::now() < deadline) {
    const OrphanedProcesses::Found found = fallen.kill_some();
    if (found == OrphanedProcesses::Found::none) return;
    // A process that keeps forking to escape is followed without a pause.
    if (found == OrphanedProcesses::Found::only_dying) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace muster::launch
