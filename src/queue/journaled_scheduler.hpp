// A scheduler whose every event is in the queue's journal before anything is done about it.
#pragma once

#include <chrono>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/result.hpp"
#include "queue/state_folder.hpp"
#include "schedule/scheduler.hpp"
#include "store/appended_file.hpp"

namespace muster::queue {

// The wall clock when it was made, and from then on as steady as time is: one who sets the clock of the machine neither
// ends jobs by their timeouts nor keeps them.
class SteadyClock {
 public:
  schedule::Time now() const;
  // The moment at which a file was touched, in this clock's time.
  schedule::Time moment_of(std::chrono::system_clock::time_point moment) const;

 private:
  std::chrono::system_clock::time_point began_ = std::chrono::system_clock::now();
  std::chrono::steady_clock::time_point steady_ = std::chrono::steady_clock::now();
};

class JournaledScheduler {
 public:
  // Reads the journal; a last line that was never finished is cut off.
  static Result<JournaledScheduler> open(const StateFolder& folder);

  const schedule::Scheduler& scheduler() const { return scheduler_; }
  const SteadyClock& clock() const { return clock_; }

  // What is told from here on happens at this moment: Note [One moment a turn] in conductor.cpp.
  void begin_turn() { moment_ = clock_.now(); }
  schedule::Time moment() const { return moment_; }

  // An event that cannot be changes nothing.
  Result<void> tell(schedule::Happening what);
  bool has_unwritten() const { return !unwritten_.empty(); }
  // On the disk when this returns.
  Result<void> write();
  // What was decided since the last time. To be carried out after write().
  std::vector<schedule::Decision> take_decisions() { return std::exchange(decisions_, {}); }
  // It is not known whether the last conductor came to do what it had decided.
  void decide_again(schedule::Decision decision) { decisions_.push_back(std::move(decision)); }
  bool has_decisions() const { return !decisions_.empty(); }

  // Lines of the journal, the first counted as nothing: what a shorter journal would save to read.
  std::size_t lines() const { return lines_; }
  // Puts a snapshot in the place of the journal, without these jobs. Nothing is unwritten before. False, and the
  // journal stays as it is, where the snapshot cannot be read back.
  Result<bool> shorten(const std::unordered_set<schedule::JobIndex>& forgotten);

 private:
  JournaledScheduler(store::AppendedFile journal, schedule::Scheduler scheduler, std::size_t lines)
      : journal_(std::move(journal)), scheduler_(std::move(scheduler)), lines_(lines) {}

  SteadyClock clock_;
  schedule::Time moment_ = clock_.now();
  store::AppendedFile journal_;
  schedule::Scheduler scheduler_;
  std::size_t lines_ = 0;
  std::string unwritten_;
  std::vector<schedule::Decision> decisions_;
};

}  // namespace muster::queue
