// How the keeper ends all that is below it: asks, waits for the grace, kills; step by step, so that it can keep
// reporting exits meanwhile.
#pragma once

#include <chrono>
#include <map>
#include <set>

#include "system/process.hpp"
#include "launch/keeper/control_group.hpp"
#include "launch/keeper/descendants.hpp"
#include "launch/keeper/worker_process.hpp"

namespace muster::launch {

// The ranks that were not reaped yet, by process number.
using Workers = std::map<pid_t, WorkerProcess>;

class Ending {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Ending(Clock::time_point kill_at) : kill_at_(kill_at) {}
  // Kills no later than this.
  void hurry(Clock::time_point kill_at) { kill_at_ = std::min(kill_at_, kill_at); }
  // To be called whenever a child of this process has ended, and at the latest when the last call said.
  Clock::time_point advance(const Workers& workers, ControlGroup* group);
  // Processes that had outlived their rank when they had to be asked or killed.
  int left_behind() const { return static_cast<int>(left_behind_.size()); }

 private:
  void ask_everyone(const Workers& workers);
  void ask_orphans(const Workers& workers);
  void kill_everyone(const Workers& workers, ControlGroup* group);
  void note(std::set<ProcessIdentity>& reached, const ProcessStatus& status, bool has_rank);

  Clock::time_point kill_at_;
  Clock::time_point next_scan_;
  std::chrono::milliseconds pause_{1};
  bool everyone_asked_ = false;
  std::set<ProcessIdentity> asked_;
  std::set<ProcessIdentity> killed_;
  std::set<ProcessIdentity> left_behind_;
};

}  // namespace muster::launch
