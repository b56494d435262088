#include "store/run_recorder.hpp"

#include "system/files.hpp"
#include "store/loss_plot.hpp"

namespace muster::store {
namespace {

std::vector<Scalar> scalars_of(std::span<const Measured> measured) {
  std::vector<Scalar> scalars;
  for (const Measured& one : measured) scalars.push_back({tensorboard_tag(one.column), one.value});
  return scalars;
}

// Those of a resumed run, without the rows after the step; otherwise new ones.
Result<MetricsFile> metrics_of(const RunFolder& folder, const std::vector<std::string>& columns, std::int64_t after) {
  std::error_code failure;
  const std::filesystem::path path = folder.metrics();
  // A process that was killed at once leaves a file without a header: nothing is lost with it.
  if (const auto text = read_file(path); text && text->find('\n') == std::string::npos)
    std::filesystem::remove(path, failure);
  if (!std::filesystem::exists(path, failure)) return MetricsFile::create(path, columns);
  auto metrics = MetricsFile::open(path, columns);
  if (!metrics) return metrics.error();
  if (auto back = metrics->go_back_to(after); !back) return back.error();
  return metrics;
}

}  // namespace

Result<RunRecorder> RunRecorder::begin(const RunFolder& folder, const std::vector<std::string>& columns, Moment now,
                                       std::int64_t go_on_after) {
  auto metrics = metrics_of(folder, columns, go_on_after);
  if (!metrics) return metrics.error();
  auto tensorboard = TensorBoardFile::create(folder.path(), now, go_on_after);
  if (!tensorboard) return tensorboard.error();
  auto events = EventsFile::open(folder.events());
  if (!events) return events.error();
  return RunRecorder(folder, std::move(*metrics), std::move(*tensorboard), std::move(*events));
}

void RunRecorder::wait_when_full(const FullDisk& full) {
  metrics_.wait_when_full(full);
  tensorboard_.wait_when_full(full);
  events_.wait_when_full(full);
}

Result<void> RunRecorder::add_step(Moment now, std::int64_t step, std::span<const Measured> measured) {
  if (auto added = metrics_.append(step, measured); !added) return added;
  return tensorboard_.append(now, step, scalars_of(measured));
}

Result<void> RunRecorder::add_to_step(Moment now, std::int64_t step, std::span<const Measured> measured) {
  std::vector<Measured> fresh;
  for (const Measured& one : measured)
    if (step != metrics_.last_step() || metrics_.last_cell(one.column) != one.value) fresh.push_back(one);
  if (fresh.empty()) return {};
  if (auto added = metrics_.fill(step, fresh); !added) return added;
  return tensorboard_.append(now, step, scalars_of(fresh));
}

Result<void> RunRecorder::add_event(Moment now, std::string_view event, std::optional<int> rank,
                                    const nlohmann::ordered_json& fields) {
  return events_.append(now, event, rank, fields);
}

Result<void> RunRecorder::go_back_to(Moment now, std::int64_t step) {
  if (auto back = metrics_.go_back_to(step); !back) return back;
  auto tensorboard = TensorBoardFile::create(folder_.path(), now, step);
  if (!tensorboard) return tensorboard.error();
  tensorboard_ = std::move(*tensorboard);
  return {};
}

Result<void> RunRecorder::finish(const RunResult& result) {
  const auto metrics = read_metrics(folder_.metrics());
  if (!metrics) return metrics.error();
  if (auto drawn = write_file_atomically(folder_.loss_plot(), loss_svg(folder_.name(), *metrics)); !drawn) return drawn;
  return folder_.write_result(result);
}

}  // namespace muster::store
