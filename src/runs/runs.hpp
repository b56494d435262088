// The runs in a folder, and what is known about each.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/run_folder.hpp"

namespace muster::runs {

enum class RunStatus {
  running,  // a process works on it
  done,
  failed,
  interrupted,  // it ended without a result, or by a signal
  damaged,      // one of its files cannot be read
  foreign,      // a folder without a run's files
};
std::string_view name(RunStatus status);  // "running", …, "no run"

struct RunSummary {
  std::string name;
  std::filesystem::path path;
  RunStatus status = RunStatus::foreign;
  std::optional<std::int64_t> steps;
  std::optional<double> final_loss;
  std::optional<double> exact_match;  // from 0 to 1
  std::optional<double> seconds;
  store::Moment created;
  std::optional<std::string> problem;  // what is damaged, or why it failed, in one line
};

RunSummary summarize_run(const store::RunFolder& run);
// Newest first; folders that are not runs last.
std::vector<RunSummary> list_runs(const std::filesystem::path& output);

std::string runs_text(const std::vector<RunSummary>& runs, const std::filesystem::path& output, bool colour);
// {"runs": [{"name", "path", "status", "steps", "final_loss", "exact_match", "seconds", "created", "problem"}]}; what
// is not known is null.
std::string runs_json(const std::vector<RunSummary>& runs);

}  // namespace muster::runs
