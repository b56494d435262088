#include "launch/keeper/ending.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "system/process_handle.hpp"
#include "launch/keeper/detached_process.hpp"

namespace muster::launch {
namespace {

using std::chrono::milliseconds;

// How often processes that lost their parent are looked for during the grace: the kernel does not tell of them.
constexpr milliseconds look_for_orphans(50);
// A look at every process of the machine, for those below a child that takes its time to die.
constexpr milliseconds between_scans(10);
// The kernel reports the end of a child; this is for processes below one that hangs in the kernel.
constexpr milliseconds longest_pause(250);

}  // namespace

Ending::Clock::time_point Ending::advance(const Workers& workers, ControlGroup* group) {
  const Clock::time_point now = Clock::now();
  if (now >= kill_at_) {
    kill_everyone(workers, group);
    pause_ = std::min(2 * pause_, longest_pause);
    return now + pause_;
  }
  if (everyone_asked_)
    ask_orphans(workers);
  else
    ask_everyone(workers);
  return std::min(kill_at_, now + look_for_orphans);
}

// A dead process that was not reaped is not work left behind.
void Ending::note(std::set<ProcessIdentity>& reached, const ProcessStatus& status, bool has_rank) {
  if (reached.insert(status.identity).second && !has_rank && !status.ended) left_behind_.insert(status.identity);
}

// Parents first: a rank that hears of its own end before its helpers die has no reason to complain about them.
void Ending::ask_everyone(const Workers& workers) {
  everyone_asked_ = true;
  for (const Descendant& found : find_descendants(::getpid())) {
    if (is_detached(found.top)) continue;
    note(asked_, found.status, workers.contains(found.top));
    signal_process(found.handle, SIGTERM);
    signal_process(found.handle, SIGCONT);
  }
}

// What is born during the grace may be the cleaning up of somebody who was asked, and is left in peace; unless it has
// lost its parent, so that nobody waits for it.
void Ending::ask_orphans(const Workers& workers) {
  for (const pid_t child : children_of_this_process()) {
    const auto status = read_process_status(child);
    if (!status || workers.contains(child) || asked_.contains(status->identity) || is_detached(child)) continue;
    note(asked_, *status, false);
    ::kill(child, SIGTERM);
    ::kill(child, SIGCONT);
  }
}

// Note [Killing what forks]
// Four ways, since each alone can be escaped from for a while:
//   - the process group of each rank, in one stroke of the kernel: no fork happens between the signals;
//   - the processes found in /proc: all levels at once, so that a parent which takes seconds to die (it gives back the
//     memory of a GPU) does not delay its children. A process that forks faster than /proc is read escapes;
//   - the control group, where there is one: no escape;
//   - our own children with their groups: cheap to list, and whoever flees by forking and ending becomes one, again and
//     again, which we are told of each time.
// Nothing is left when the kernel says that this process has no children any more, or none but such as stand apart
// (detached_process.hpp): what is below it is below a child.
void Ending::kill_everyone(const Workers& workers, ControlGroup* group) {
  std::vector<Descendant> descendants;
  if (const Clock::time_point now = Clock::now(); now >= next_scan_) {
    descendants = find_descendants(::getpid());
    std::erase_if(descendants, [](const Descendant& found) { return is_detached(found.top); });
    next_scan_ = now + between_scans;
  }
  // Who still has its rank is noted before that rank dies.
  for (const Descendant& found : descendants) note(killed_, found.status, workers.contains(found.top));
  for (const auto& [pid, worker] : workers) worker.signal(SIGKILL);
  for (const Descendant& found : descendants) signal_process(found.handle, SIGKILL);
  if (group != nullptr) group->kill();
  for (const pid_t child : children_of_this_process())
    if (is_detached(child))
      continue;
    else if (const auto status = kill_child_with_group(child))
      note(killed_, *status, workers.contains(child));
}

}  // namespace muster::launch
