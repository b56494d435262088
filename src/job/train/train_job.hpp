// Listens to a training job and records what it reports.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>

#include "checkpoint/training_state.hpp"
#include "job/train/train.hpp"
#include "store/run_recorder.hpp"

namespace muster::job {

// The columns of a training run's metrics.csv except step.
std::vector<std::string> train_columns(const wire::TrainTask& task);

// What is known about a run so far, over all attempts.
struct TrainRecord {
  std::int64_t step = 0;
  std::optional<double> loss;
  std::optional<wire::Evaluated> evaluated;
  std::int64_t skipped = 0;
  std::map<int, wire::MemoryUse> memory;  // by rank
  std::optional<std::int64_t> saved;      // the step of the newest checkpoint
  std::optional<wire::PassReduced> shrunk;     // memory ran out: passes of this size fit, as far as is known
  bool unwritable = false;                // what was reported could not be written down
  std::optional<Error> hopeless;          // an error that ended the ranks, and would end them again
};

// The numbers of a step, as metrics.csv has them. The names are the step's own.
std::vector<store::Measured> measured_of(const wire::StepRecord& step);
// Those of its evaluation, where it had one.
std::vector<store::Measured> evaluation_of(const checkpoint::StepNumbers& step);

// What a device reports about itself, in addition to what the ranks on it report.
struct DeviceUse {
  int gpu = 0;  // as PlanDevice numbers it
  std::optional<double> utilization;  // from 0 to 1
  std::optional<ByteCount> used;      // by everyone
};
using LookAtDevices = std::function<std::vector<DeviceUse>()>;

// The memory of ranks, each with the GPU that the plan gave it and what that GPU reports.
std::vector<RankReading> rank_readings(const plan::Plan& plan, const std::map<int, wire::MemoryUse>& memory,
                                       const std::vector<DeviceUse>& devices);

class TrainJob final : public WorkerListener {
 public:
  // All must outlive this. look: called now and then, for the memory report.
  TrainJob(const TrainPlan& plan, store::RunRecorder& recorder, TrainRecord& record, const TrainListener& listener,
           LookAtDevices look);

  Result<void> on_event(const wire::Event& event) override;
  std::optional<std::chrono::steady_clock::time_point> deadline() override;
  Error deadline_passed() override;

  int ranks_done() const { return done_; }

 private:
  Result<void> take(const wire::Event& event);
  Result<void> take(const wire::TrainStep& step, store::Moment time);
  Result<void> take(const wire::Evaluated& evaluated, store::Moment time);
  void take(const wire::MemoryUse& use, int rank);
  void take(const wire::PassReduced& shrunk, int rank);
  TrainProgress progress_of(const wire::TrainStep& step);
  std::optional<double> utilization(double tokens_per_second) const;
  void report_memory();

  const TrainPlan& plan_;
  store::RunRecorder& recorder_;
  TrainRecord& record_;
  const TrainListener& listener_;
  LookAtDevices look_;
  RankProgress work_;  // between results
  std::chrono::steady_clock::time_point last_sign_;
  std::chrono::steady_clock::time_point last_report_;
  bool computing_ = false;
  int done_ = 0;
  double smoothed_seconds_ = 0;  // of a step
  std::vector<std::optional<int>> warned_;  // devices whose memory is nearly full; absent: the host
};

}  // namespace muster::job
