// Hears of a training job and writes it down.
#pragma once

#include <chrono>
#include <map>
#include <optional>

#include "service/train.hpp"
#include "store/events_file.hpp"
#include "store/metrics_file.hpp"
#include "store/tensorboard_file.hpp"

namespace muster::service {

// The files of a run that grow while it goes on.
struct RunFiles {
  store::MetricsFile metrics;
  store::EventsFile events;
  store::TensorBoardFile tensorboard;
};
// Those of a run that goes on from this step; 0: from the beginning. first: of a new folder.
Result<RunFiles> open_run_files(const store::RunFolder& folder, std::int64_t step, bool first);

// What is known of a run so far, over all attempts.
struct TrainRecord {
  std::int64_t step = 0;
  std::optional<double> loss;
  std::optional<wire::Evaluated> evaluated;
  std::int64_t skipped = 0;
  std::map<int, wire::MemoryUse> memory;  // by rank
};

class TrainJob final : public WorkerListener {
 public:
  // All must outlive this.
  TrainJob(const TrainPlan& plan, RunFiles& files, TrainRecord& record, const TrainListener& listener);

  Result<void> happened(const wire::Event& event) override;
  std::optional<std::chrono::steady_clock::time_point> deadline() override;
  Error deadline_passed() override;

 private:
  Result<void> take(const wire::TrainStep& step, store::Moment time);
  Result<void> take(const wire::Evaluated& evaluated, store::Moment time);
  void take(const wire::MemoryUse& use, int rank);
  TrainProgress progress_of(const wire::TrainStep& step);
  void report_memory();

  const TrainPlan& plan_;
  RunFiles& files_;
  TrainRecord& record_;
  const TrainListener& listener_;
  std::chrono::steady_clock::time_point last_sign_;
  std::chrono::steady_clock::time_point last_report_;
  bool computing_ = false;
  double smoothed_seconds_ = 0;  // of a step
  std::vector<std::string> warned_;
};

}  // namespace muster::service
