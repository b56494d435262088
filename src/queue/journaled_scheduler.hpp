// A scheduler whose every event is in the queue's journal before anything is done about it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/result.hpp"
#include "queue/queue_clock.hpp"
#include "queue/state_folder.hpp"
#include "schedule/scheduler.hpp"
#include "store/appended_file.hpp"

namespace muster::queue {

class JournaledScheduler {
 public:
  // Reads the journal; a last line that was never finished is cut off.
  static Result<JournaledScheduler> open(const StateFolder& folder);

  const schedule::Scheduler& scheduler() const { return scheduler_; }
  const QueueClock& clock() const { return clock_; }

  // Events from here on happen at this moment: Note [One moment a turn] in conductor.cpp.
  void begin_turn() { moment_ = clock_.now(); }
  schedule::Time moment() const { return moment_; }

  // An impossible event changes nothing.
  Result<void> tell(schedule::Happening what);
  bool has_unwritten() const { return !unwritten_.empty(); }
  // On the disk when this returns. After an Error everything is still unwritten, and it may be tried again.
  Result<void> write();
  // What was decided since the last time. To be carried out after write().
  std::vector<schedule::Decision> take_decisions() { return std::exchange(decisions_, {}); }
  // It is not known whether the previous conductor carried out what it had decided.
  void decide_again(schedule::Decision decision) { decisions_.push_back(std::move(decision)); }
  bool has_decisions() const { return !decisions_.empty(); }

  // Lines of the journal, not counting the first: what a shorter journal would save reading.
  std::size_t lines() const { return lines_; }
  // Replaces the journal with a snapshot, without these jobs. Nothing is unwritten before. False, and the
  // journal stays as it is, if the snapshot cannot be read back. After an Error it is as usable as before.
  Result<bool> shorten(const std::unordered_set<schedule::JobIndex>& forgotten);

 private:
  JournaledScheduler(store::AppendedFile journal, schedule::Scheduler scheduler, std::size_t lines, QueueClock clock)
      : clock_(std::move(clock)), journal_(std::move(journal)), scheduler_(std::move(scheduler)), lines_(lines) {}

  QueueClock clock_;
  schedule::Time moment_ = clock_.now();
  store::AppendedFile journal_;
  schedule::Scheduler scheduler_;
  std::size_t lines_ = 0;
  std::string unwritten_;
  std::optional<std::uint64_t> unflushed_from_;  // where unwritten_ is in the file, but perhaps not on the disk
  std::vector<schedule::Decision> decisions_;
};

}  // namespace muster::queue
