// One running trial: its commands one after the other, each below a keeper that dies with this process, watched until
// the last has ended.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "system/file_descriptor.hpp"
#include "base/result.hpp"
#include "queue/attempt_file.hpp"
#include "service/sweep_slots.hpp"
#include "service/trial_score.hpp"
#include "sweep/sweep_spec.hpp"
#include "sweep/trial_ledger.hpp"

namespace muster::service {

// A trial, and where it runs.
struct TrialOrder {
  sweep::RunningTrial trial;
  std::filesystem::path folder;   // of the trial, absolute
  std::filesystem::path attempt;  // its file in running/
  int lock = -1;                  // that file, locked; borrowed
  std::vector<int> leases;        // descriptors that its programs hold; borrowed
  const sweep::SweepSpec* spec = nullptr;
  const Slot* slot = nullptr;
  std::string sweep;  // its name
  // Returns once the memory of what ran on these GPUs before is free again; absent if there is nothing to wait for. In
  // the keeper, before a command starts.
  std::function<Result<void>()> wait_for_memory = {};
  bool follows = false;  // something of this sweep ran there before
};

// Decides about a trial that has reached a step at which early stop compares trials.
using OnReport = std::function<Result<sweep::Verdict>(const StepScore&)>;

class TrialRun {
 public:
  using Clock = std::chrono::steady_clock;

  // Records the trial's settings and starts its first command. To be called by a process without threads. If the
  // system is short of something, advance() tries again: the trial has not begun, and has not failed.
  static Result<TrialRun> start(TrialOrder order);

  const TrialOrder& order() const { return order_; }
  // Readable when its command has ended.
  int descriptor() const { return keeper_.number(); }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begun_).count(); }
  std::optional<StepScore> last_report() const { return last_report_; }
  // Why its command could not be started, as long as it waits for that.
  const std::optional<std::string>& hindrance() const { return hindrance_; }

  // Looks at what it has reported and whether it still runs; continues with the next command. The outcome, once it is
  // known.
  Result<std::optional<sweep::Observation>> advance(const OnReport& on_report);
  // Asks it to end, and kills it some seconds later.
  void end();
  // Waits until nothing of it is left.
  void wait();

 private:
  enum class Why { nothing, early_stop, silence, timeout, asked };

  explicit TrialRun(TrialOrder order) : order_(std::move(order)) {}
  Result<std::vector<std::string>> command_of_phase() const;
  std::vector<std::string> environment() const;
  std::optional<queue::NotStarted> prepare();
  std::optional<queue::NotStarted> start_phase();
  Result<void> try_to_start();
  void postpone(const std::string& reason);
  bool has_ended();
  Result<void> read_reports(const OnReport& on_report);
  Result<void> hear(const StepScore& report, const OnReport& on_report);
  void look_for_life();
  void look_at_time();
  std::optional<std::string> failure_of_phase(const queue::AttemptRecord& record) const;
  std::string output() const;
  sweep::Observation observe() const;
  bool is_own_training() const { return order_.spec->command.empty(); }

  TrialOrder order_;
  FileDescriptor port_;  // bound, so that no other process gets it; not listened on
  std::size_t phase_ = 0;
  std::size_t phases_ = 1;
  pid_t pid_ = 0;
  FileDescriptor keeper_;
  std::size_t attempt_begin_ = 0;  // bytes that the attempt's file and the log already had
  std::uintmax_t log_begin_ = 0;
  std::optional<ReportReader> reports_;
  std::optional<MetricsReader> metrics_;
  std::optional<StepScore> last_report_;
  Why why_ = Why::nothing;
  std::optional<std::string> failure_;
  std::optional<queue::AttemptRecord> ending_;  // what is known about the command that has just ended
  std::optional<std::string> hindrance_;
  int postponed_ = 0;  // times in a row
  bool is_prepared_ = false;
  std::size_t rungs_ = 0;    // rungs of early stop that it has reached
  std::uintmax_t life_ = 0;  // bytes of everything it writes
  Clock::time_point begun_ = Clock::now(), last_sign_ = begun_, next_look_ = begun_, next_start_ = begun_;
};

// The command that trains with these settings by muster itself, as a trial runs it.
std::vector<std::string> training_command(const std::string& program, const sweep::Settings& settings);

}  // namespace muster::service
