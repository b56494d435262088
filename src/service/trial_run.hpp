// One trial at work: its commands one after the other, each below a keeper that dies with this process, watched until
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

#include "base/file_descriptor.hpp"
#include "base/result.hpp"
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
  // Returns once the memory of what ran on these GPUs before is back; absent where nothing has to be waited for. In the
  // keeper, before a command starts.
  std::function<Result<void>()> wait_for_memory = {};
  bool follows = false;  // something of this sweep ran there before
};

// Decides about a trial that has come to a step at which early stop compares trials.
using OnReport = std::function<Result<sweep::Verdict>(const StepScore&)>;

class TrialRun {
 public:
  using Clock = std::chrono::steady_clock;

  // Writes the trial's settings down and starts its first command. To be called by a process without threads.
  static Result<TrialRun> start(TrialOrder order);

  const TrialOrder& order() const { return order_; }
  // Readable when its command has ended.
  int descriptor() const { return keeper_.number(); }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begun_).count(); }
  std::optional<StepScore> last_report() const { return last_report_; }

  // Looks at what it has told and whether it still runs; goes on with the next command. What came of it, once it is
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
  Result<void> start_phase();
  bool has_ended();
  Result<void> read_reports(const OnReport& on_report);
  Result<void> hear(const StepScore& report, const OnReport& on_report);
  void look_for_life();
  void look_at_time();
  std::optional<std::string> failure_of_phase() const;
  std::string output() const;
  sweep::Observation observe() const;
  bool is_own_training() const { return order_.spec->command.empty(); }

  TrialOrder order_;
  FileDescriptor port_;  // bound, so that nobody else gets it; not listened on
  std::size_t phase_ = 0;
  std::size_t phases_ = 1;
  pid_t pid_ = 0;
  FileDescriptor keeper_;
  std::size_t attempt_begin_ = 0;  // bytes of the attempt's file and of the log that were there before
  std::uintmax_t log_begin_ = 0;
  std::optional<ReportReader> reports_;
  std::optional<MetricsReader> metrics_;
  std::optional<StepScore> last_report_;
  Why why_ = Why::nothing;
  std::optional<std::string> failure_;
  std::size_t rungs_ = 0;    // of early stop, that it has come to
  std::uintmax_t life_ = 0;  // bytes of all that it writes
  Clock::time_point begun_ = Clock::now(), last_sign_ = begun_, next_look_ = begun_;
};

// The command of muster's own training with these settings, as a trial runs it.
std::vector<std::string> training_command(const std::string& program, const sweep::Settings& settings);

}  // namespace muster::service
