// The trials of a sweep as several processes share them, in the files of its folder: sweep_folder.hpp.
//
// Note [Trials that were cut off]
// A trial is running while a process holds the lock of its file in running/: the process that began it, and everything
// that inherited the lock from it. When all of those are gone and the trial has not ended, it was cut off: a command
// was killed, a machine was switched off. That says nothing about its settings, so nothing is recorded; the next
// begin() of any process begins it again, under its own id and with its own settings, before anything new. A trial left
// in good order (leave()) does not count; one that was cut off most_attempts times is assumed to be what kills its
// process, and recorded as failed.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "system/file_descriptor.hpp"
#include "base/result.hpp"
#include "sweep/sweep_folder.hpp"
#include "sweep/trial_ledger.hpp"

namespace muster::sweep {

class FileLedger final : public TrialLedger {
 public:
  static constexpr int most_attempts = 3;

  // The folder has been prepared.
  explicit FileLedger(SweepFolder folder);

  Result<TrialList> trials() override;
  Result<std::optional<RunningTrial>> begin(const Chooser& choose) override;
  Result<std::vector<Report>> report(const Report& report) override;
  // The trial must be one that this ledger began.
  Result<void> finish(const Observation& observation) override;

  // Gives up a trial that has not ended: another begin() resumes it.
  Result<void> leave(const std::string& trial);
  // The locked file of a trial that this ledger began, open for appending. Programs that inherit it keep the trial
  // running.
  int lock_of(const std::string& trial) const { return held_.at(trial).number(); }

  // How long this sweep has been worked on, by this process and earlier ones.
  double seconds() const;

 private:
  struct Unfinished;

  Result<void> read_finished();
  Result<std::vector<Unfinished>> read_unfinished();
  Result<std::optional<RunningTrial>> begin_again(std::vector<Unfinished>& cut_off);
  // trials: all that exist, none of them cut off.
  Result<RunningTrial> begin_new(const TrialList& trials, Settings settings);
  Result<void> record(const Observation& observation);
  Result<void> note_seconds() const;

  SweepFolder folder_;
  double seconds_before_ = 0;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::map<std::string, FileDescriptor> held_;
  std::vector<Observation> finished_;
  std::uintmax_t finished_bytes_ = 0;  // of observations.jsonl that finished_ was read from
};

// The contents of a sweep's file of observations; nothing if it does not exist yet.
Result<std::vector<Observation>> read_observations_file(const SweepFolder& folder);

}  // namespace muster::sweep
