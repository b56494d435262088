// Everything that is written while a run works: metrics.csv, TensorBoard's file, events.jsonl; at its end loss.svg and
// result.json.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "store/events_file.hpp"
#include "store/metrics_file.hpp"
#include "store/run_folder.hpp"
#include "store/tensorboard_file.hpp"

namespace muster::store {

class RunRecorder {
 public:
  // For a folder whose lock this process holds. columns: those of metrics.csv except step. go_on_after: the step of the
  // checkpoint that the run is resumed from, 0 for its beginning; records of later steps are removed.
  static Result<RunRecorder> begin(const RunFolder& folder, const std::vector<std::string>& columns, Moment now,
                                   std::int64_t go_on_after = 0);

  // After this every write waits when the disk is full; without it that is an error at once.
  void wait_when_full(const FullDisk& full);
  // A step's numbers, into metrics.csv and TensorBoard.
  Result<void> add_step(Moment now, std::int64_t step, std::span<const Measured> measured);
  // What was measured after the last step, as by an evaluation. Values already recorded are left alone.
  Result<void> add_to_step(Moment now, std::int64_t step, std::span<const Measured> measured);
  Result<void> add_event(Moment now, std::string_view event, std::optional<int> rank = {},
                         const nlohmann::ordered_json& fields = nlohmann::ordered_json::object());
  // The ranks start again from a checkpoint of this step.
  Result<void> go_back_to(Moment now, std::int64_t step);
  // The newest step whose row is written. A checkpoint may be of a later one: its rows are missing.
  std::optional<std::int64_t> last_step() const { return metrics_.last_step(); }
  // The plot and the result.
  Result<void> finish(const RunResult& result);

 private:
  RunRecorder(RunFolder folder, MetricsFile metrics, TensorBoardFile tensorboard, EventsFile events)
      : folder_(std::move(folder)),
        metrics_(std::move(metrics)),
        tensorboard_(std::move(tensorboard)),
        events_(std::move(events)) {}

  RunFolder folder_;
  MetricsFile metrics_;
  TensorBoardFile tensorboard_;
  EventsFile events_;
};

}  // namespace muster::store
