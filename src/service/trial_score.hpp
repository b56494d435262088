// What a trial reports: its score at the end, and scores on the way.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace muster::service {

// The number that a line of output gives for a metric: a JSON object that contains it, or "metric=0.5".
std::optional<double> metric_of_line(std::string_view line, const std::string& metric);

// The score of a command: from result.json in the trial's folder, else from the last line of its output that gives it.
Result<double> score_of_command(const std::filesystem::path& trial_folder, std::string_view output,
                                const std::string& metric);
// The score of muster's own training, whose runs are in the trial's folder: from the newest run's result.json, else the
// last one in its metrics.csv.
Result<double> score_of_training(const std::filesystem::path& trial_folder, const std::string& metric);

// The newest run of muster's own training in a trial's folder.
std::optional<std::filesystem::path> newest_run(const std::filesystem::path& trial_folder);

// A file's contents from a byte on; nothing where it cannot be read.
std::string read_from(const std::filesystem::path& file, std::size_t begin);

struct StepScore {
  std::int64_t step = 0;
  double score = 0;
};

// Continues reading a file of {"step", "score"} lines. Other lines are skipped; keys like "loss" work, too: the
// metric's own name can be used for "score".
class ReportReader {
 public:
  ReportReader(std::filesystem::path file, std::string metric) : file_(std::move(file)), metric_(std::move(metric)) {}
  std::vector<StepScore> next();

 private:
  std::filesystem::path file_;
  std::string metric_;
  std::size_t read_ = 0;  // bytes
};

// The same for metrics.csv of muster's own training: the steps at which the metric was measured.
class MetricsReader {
 public:
  MetricsReader(std::filesystem::path trial_folder, std::string metric)
      : trial_folder_(std::move(trial_folder)), metric_(std::move(metric)) {}
  std::vector<StepScore> next();

 private:
  std::filesystem::path trial_folder_;
  std::string metric_;
  std::uintmax_t bytes_ = 0;
  std::int64_t step_ = -1;  // the last one that was reported
};

}  // namespace muster::service
