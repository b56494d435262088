#include "runs/runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/table.hpp"
#include "runs/run_format.hpp"
#include "store/find_run.hpp"
#include "store/metrics_table.hpp"

namespace muster::runs {
namespace {

namespace fs = std::filesystem;

void take_result(RunSummary& summary, const store::RunResult& result) {
  switch (result.status) {
    case store::Ending::done:
      summary.status = RunStatus::done;
      break;
    case store::Ending::failed:
      summary.status = RunStatus::failed;
      break;
    case store::Ending::interrupted:
      summary.status = RunStatus::interrupted;
      break;
  }
  summary.steps = result.steps;
  summary.final_loss = result.final_loss;
  summary.exact_match = result.exact_match;
  summary.seconds = result.seconds;
  if (result.error) summary.problem = first_line(*result.error);
}

// What a run without a result has reached.
void take_metrics(RunSummary& summary, const store::RunFolder& run) {
  std::error_code failure;
  if (!fs::exists(run.metrics(), failure)) return;
  const auto metrics = store::read_last_metrics(run.metrics());
  if (!metrics) {
    if (summary.status != RunStatus::running) summary.status = RunStatus::damaged;
    summary.problem = first_line(metrics.error().what);
    return;
  }
  summary.steps = metrics->steps.empty() ? 0 : metrics->steps.back();
  summary.final_loss = metrics->last("loss");
  summary.exact_match = metrics->last("exact_match");
}

Cell right(std::string text) { return {std::move(text), Colour::plain, true}; }

std::vector<Cell> row_of(const RunSummary& run) {
  return {{safe_line(run.name), Colour::bold},
          {std::string(name(run.status)), colour_of(run.status)},
          right(run.steps ? counted(static_cast<double>(*run.steps)) : "-"),
          right(loss_words(run.final_loss)),
          right(share_words(run.exact_match)),
          right(span_words(run.seconds)),
          {run.status == RunStatus::foreign ? "-" : store::spoken_time(run.created)},
          {safe_line(run.problem.value_or("")), Colour::dim}};
}

}  // namespace

std::string_view name(RunStatus status) {
  switch (status) {
    case RunStatus::running:
      return "running";
    case RunStatus::done:
      return "done";
    case RunStatus::failed:
      return "failed";
    case RunStatus::interrupted:
      return "interrupted";
    case RunStatus::damaged:
      return "damaged";
    case RunStatus::foreign:
      return "no run";
  }
  return "";
}

RunSummary summarize_run(const store::RunFolder& run) {
  RunSummary summary{run.name(), run.path(), RunStatus::foreign, {}, {}, {}, {}, run.created(), {}};
  if (!run.looks_like_a_run()) return summary;
  const bool running = store::is_locked(run.path());
  summary.status = running ? RunStatus::running : RunStatus::interrupted;
  if (!running) {
    const auto result = run.read_result();
    if (!result) {
      summary.status = RunStatus::damaged;
      summary.problem = first_line(result.error().what);
      return summary;
    }
    if (*result) {
      take_result(summary, **result);
      return summary;
    }
  }
  summary.seconds = run.seconds_worked(running ? std::optional(std::chrono::system_clock::now()) : std::nullopt);
  take_metrics(summary, run);
  return summary;
}

std::vector<RunSummary> list_runs(const fs::path& output) {
  std::vector<RunSummary> runs;
  for (const store::RunFolder& run : store::folders_in(output)) runs.push_back(summarize_run(run));
  std::ranges::stable_sort(runs, [](const RunSummary& a, const RunSummary& b) {
    const bool foreign_a = a.status == RunStatus::foreign, foreign_b = b.status == RunStatus::foreign;
    return foreign_a != foreign_b ? foreign_b : a.created > b.created;
  });
  return runs;
}

std::string runs_text(const std::vector<RunSummary>& runs, const fs::path& output, bool colour) {
  if (runs.empty()) return fmt::format("no runs in {}; muster train makes one\n", output.string());
  std::vector<std::vector<Cell>> rows{{{"name", Colour::dim},
                                       {"status", Colour::dim},
                                       {"steps", Colour::dim, true},
                                       {"final loss", Colour::dim, true},
                                       {"exact match", Colour::dim, true},
                                       {"time", Colour::dim, true},
                                       {"when", Colour::dim}}};
  for (const RunSummary& run : runs) rows.push_back(row_of(run));
  return format_table(rows, colour);
}

std::string runs_json(const std::vector<RunSummary>& runs) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const RunSummary& run : runs) list.push_back(summary_json(run));
  return nlohmann::ordered_json{{"runs", list}}.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace muster::runs
