#include "experiment/results.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "system/files.hpp"
#include "base/table.hpp"
#include "base/text.hpp"

namespace muster::experiment {
namespace {

using nlohmann::ordered_json;

// The columns of all jobs together, in the order in which they first appear.
std::vector<std::string> columns_of(std::span<const JobOutcome> outcomes) {
  std::vector<std::string> columns;
  for (const JobOutcome& outcome : outcomes)
    for (const auto& [key, value] : outcome.numbers.items())
      if (std::ranges::find(columns, key) == columns.end()) columns.push_back(key);
  return columns;
}

std::string cell_text(const JobOutcome& outcome, const std::string& column) {
  const auto found = outcome.numbers.find(column);
  if (found == outcome.numbers.end() || found->is_null()) return "";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

std::string spoken(const JobOutcome& outcome, const std::string& column) {
  const auto found = outcome.numbers.find(column);
  if (found != outcome.numbers.end() && found->is_number_float()) return fmt::format("{:.4g}", found->get<double>());
  return cell_text(outcome, column);
}

// What muster evaluate counts in addition to its findings is left to results.csv.
bool is_finding(std::span<const JobOutcome> outcomes, const std::string& column) {
  constexpr std::array<std::string_view, 6> counts{"tokens",          "samples", "cut_samples",
                                                   "dropped_samples", "correct", "questions"};
  return std::ranges::find(counts, column) == counts.end() &&
         std::ranges::any_of(outcomes, [&](const JobOutcome& outcome) {
           return outcome.numbers.contains(column) && outcome.numbers[column].is_number();
         });
}

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string out = "\"";
  for (const char letter : text) out += letter == '"' ? std::string("\"\"") : std::string(1, letter);
  return out + "\"";
}

Colour colour_of(JobStatus status) {
  if (status == JobStatus::failed) return Colour::red;
  return status == JobStatus::eval_completed ? Colour::green : Colour::plain;
}

}  // namespace

Result<std::vector<JobOutcome>> outcomes(const ExperimentSpec& spec, std::span<const ExperimentJob> jobs,
                                         const std::filesystem::path& folder) {
  std::vector<JobOutcome> all;
  for (const ExperimentJob& job : jobs) {
    const JobFolder place(folder, job.id);
    JobOutcome outcome;
    outcome.job = &job;
    auto progress = progress_of(spec, place);
    if (!progress) return progress.error();
    outcome.progress = std::move(*progress);
    const auto trained = place.read(StageKind::train);
    if (trained && *trained) outcome.sha256 = (*trained)->sha256.value_or("");
    const auto text = outcome.progress.status == JobStatus::eval_completed ? read_file(place.result()) : std::string();
    const ordered_json result = text ? ordered_json::parse(*text, nullptr, false) : ordered_json();
    if (result.is_object())
      for (const auto& [key, value] : result.items())
        if (value.is_primitive() && key != "model") outcome.numbers[key] = value;
    all.push_back(std::move(outcome));
  }
  return all;
}

std::string outcome_table(std::span<const JobOutcome> outcomes, bool colour) {
  constexpr std::size_t most_columns = 8;
  std::vector<std::string> columns;
  for (const std::string& column : columns_of(outcomes))
    if (is_finding(outcomes, column)) columns.push_back(column);
  columns.resize(std::min(columns.size(), most_columns));
  std::vector<std::vector<Cell>> rows{{{"JOB"}, {"STATUS"}}};
  for (const std::string& column : columns) rows[0].push_back({column, Colour::plain, true});
  rows[0].push_back({""});
  for (const JobOutcome& outcome : outcomes) {
    std::vector<Cell> row{{outcome.job->id.text},
                          {std::string(name(outcome.progress.status)), colour_of(outcome.progress.status)}};
    for (const std::string& column : columns) row.push_back({spoken(outcome, column), Colour::plain, true});
    row.push_back({outcome.progress.reason});
    rows.push_back(std::move(row));
  }
  std::string text;
  for (const std::string& line : split(format_table(rows, colour), '\n'))
    if (const auto end = line.find_last_not_of(' '); end != std::string::npos) text += line.substr(0, end + 1) + "\n";
  return text;
}

std::string outcome_lines(std::span<const JobOutcome> outcomes) {
  std::string text;
  for (const JobOutcome& outcome : outcomes) {
    if (outcome.progress.status != JobStatus::eval_completed) continue;
    ordered_json line{{"job", outcome.job->id.text},
                      {"algorithm", outcome.job->algorithm->name},
                      {"family", outcome.job->family->name},
                      {"dataset", outcome.job->dataset->name},
                      {"round", outcome.job->round},
                      {"sha256", outcome.sha256.empty() ? ordered_json(nullptr) : ordered_json(outcome.sha256)}};
    for (const auto& [key, value] : outcome.numbers.items())
      if (!line.contains(key)) line[key] = value;
    text += line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  return text;
}

std::string outcome_csv(std::span<const JobOutcome> outcomes) {
  const std::vector<std::string> columns = columns_of(outcomes);
  std::string text = "job,algorithm,family,dataset,round,status";
  for (const std::string& column : columns) text += "," + quoted(column);
  text += "\n";
  for (const JobOutcome& outcome : outcomes) {
    text +=
        fmt::format("{},{},{},{},{},{}", outcome.job->id.text, outcome.job->algorithm->name, outcome.job->family->name,
                    outcome.job->dataset->name, outcome.job->round, name(outcome.progress.status));
    for (const std::string& column : columns) text += "," + quoted(cell_text(outcome, column));
    text += "\n";
  }
  return text;
}

Result<void> write_results(std::span<const JobOutcome> outcomes, const std::filesystem::path& folder) {
  if (auto written = write_file_atomically(folder / "results.jsonl", outcome_lines(outcomes)); !written) return written;
  if (auto written = write_file_atomically(folder / "results.csv", outcome_csv(outcomes)); !written) return written;
  return write_file_atomically(folder / "results.txt", outcome_table(outcomes, false));
}

}  // namespace muster::experiment
