#include "launch/fallen.hpp"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <thread>

#include "launch/control_group.hpp"
#include "launch/descendants.hpp"
#include "launch/keeper_mark.hpp"

namespace muster::launch {
namespace {

class FallenProcesses {
 public:
  FallenProcesses(const ProcessIdentity& keeper, const std::set<pid_t>& sessions)
      : keeper_(keeper), sessions_(sessions), group_(ControlGroup::open(keeper)) {}
  ~FallenProcesses() {
    if (group_) group_->remove();
  }
  FallenProcesses(const FallenProcesses&) = delete;
  FallenProcesses& operator=(const FallenProcesses&) = delete;

  // Kills those that are there now; true while there are any. Their children fall to us next.
  bool kill_some() {
    std::vector<pid_t> members;
    if (group_) {
      group_->kill();
      members = group_->members();
    }
    bool any = !members.empty();
    for (const pid_t child : children_of_this_process()) {
      const auto status = read_process_status(child);
      if (!status || !is_fallen(*status, members)) continue;
      killed_.insert(status->identity);
      ::kill(child, SIGKILL);
      if (::waitpid(child, nullptr, WNOHANG) == 0) any = true;
    }
    return any;
  }

 private:
  // A dead process has no environment any more; that it was one of them is remembered.
  bool is_fallen(const ProcessStatus& status, const std::vector<pid_t>& members) const {
    return killed_.contains(status.identity) || sessions_.contains(status.session) ||
           std::ranges::find(members, status.identity.pid) != members.end() ||
           carries_mark(status.identity.pid, keeper_);
  }

  const ProcessIdentity keeper_;
  const std::set<pid_t>& sessions_;
  const std::optional<ControlGroup> group_;
  std::set<ProcessIdentity> killed_;
};

}  // namespace

void kill_fallen(const ProcessIdentity& keeper, const std::set<pid_t>& sessions,
                 std::chrono::steady_clock::time_point deadline) {
  FallenProcesses fallen(keeper, sessions);
  while (fallen.kill_some() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace muster::launch
