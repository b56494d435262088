#include "service/trial_score.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "runs/runs.hpp"
#include "json/json_text.hpp"
#include "store/metrics_table.hpp"
#include "system/files.hpp"

namespace muster::service {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

namespace {

// JSON has no word for not-a-number and infinity; Python writes these, and here they become strings.
constexpr std::array<std::pair<std::string_view, double>, 3> boundless{{
    {"NaN", std::numeric_limits<double>::quiet_NaN()},
    {"-Infinity", -std::numeric_limits<double>::infinity()},
    {"Infinity", std::numeric_limits<double>::infinity()},
}};

// The same JSON with those words, where they are outside of strings, in quotes.
std::string with_quoted_boundless(std::string_view text) {
  std::string quoted;
  bool in_text = false;
  for (std::size_t i = 0; i < text.size();) {
    const auto word = std::ranges::find_if(
        boundless, [&](const auto& one) { return !in_text && text.substr(i).starts_with(one.first); });
    if (word != boundless.end()) {
      quoted += fmt::format("\"{}\"", word->first);
      i += word->first.size();
      continue;
    }
    if (text[i] == '"') in_text = !in_text;
    if (in_text && text[i] == '\\' && i + 1 < text.size()) quoted += text[i++];
    quoted += text[i++];
  }
  return quoted;
}

// Null means not measured.
std::optional<double> number_under(const ordered_json& object, const std::string& key) {
  const auto found = object.find(key);
  if (found == object.end()) return std::nullopt;
  if (found->is_number()) return found->get<double>();
  for (const auto& [word, value] : boundless)
    if (found->is_string() && found->get_ref<const std::string&>() == word) return value;
  return std::nullopt;
}

std::optional<ordered_json> parse_object(std::string_view text) {
  auto object = parse_ordered_json_object(text, "");
  if (!object) object = parse_ordered_json_object(with_quoted_boundless(text), "");
  return object ? std::optional<ordered_json>(std::move(*object)) : std::nullopt;
}

std::optional<double> number_in_file(const fs::path& file, const std::string& metric) {
  if (!fs::exists(file)) return std::nullopt;
  const auto text = read_file(file);
  if (!text) return std::nullopt;
  const auto object = parse_object(*text);
  return object ? number_under(*object, metric) : std::nullopt;
}

// metrics.csv calls the loss of a step "loss", and result.json that of the last one "final_loss".
std::string column_of(const std::string& metric) { return metric == "final_loss" ? "loss" : metric; }

}  // namespace

std::optional<double> metric_of_line(std::string_view line, const std::string& metric) {
  line = trim(line);
  if (line.starts_with('{')) {
    const auto object = parse_object(line);
    return object ? number_under(*object, metric) : std::nullopt;
  }
  if (!line.starts_with(metric + "=")) return std::nullopt;
  return parse_number<double>(trim(line.substr(metric.size() + 1)));
}

Result<double> score_of_command(const fs::path& trial_folder, std::string_view output, const std::string& metric) {
  if (const auto score = number_in_file(trial_folder / "result.json", metric)) return *score;
  const std::vector<std::string> lines = split(output, '\n');
  for (std::size_t i = lines.size(); i-- > 0;)
    if (const auto score = metric_of_line(lines[i], metric)) return *score;
  return Error{
      Error::Kind::failed,
      fmt::format("it ended well and gave no {}: neither result.json in its folder nor a line of its output "
                  "has that",
                  metric),
      fmt::format("print {{\"{}\": 0.5}} at the end, or write it to $MUSTER_TRIAL_FOLDER/result.json", metric)};
}

std::optional<fs::path> newest_run(const fs::path& trial_folder) {
  for (const runs::RunSummary& run : runs::list_runs(trial_folder))
    if (run.status != runs::RunStatus::foreign) return run.path;
  return std::nullopt;
}

Result<double> score_of_training(const fs::path& trial_folder, const std::string& metric) {
  const auto run = newest_run(trial_folder);
  if (run) {
    if (const auto score = number_in_file(*run / "result.json", metric)) return *score;
    if (const auto metrics = store::read_metrics(*run / "metrics.csv"))
      if (const auto score = metrics->last(column_of(metric))) return *score;
  }
  return Error{Error::Kind::failed, fmt::format("its training measured no {}", metric),
               "metrics of a training: final_loss, eval_loss, exact_match, and the columns of metrics.csv"};
}

std::string read_from(const fs::path& file, std::size_t begin) {
  std::ifstream stream(file, std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(begin));
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<StepScore> ReportReader::next() {
  std::vector<StepScore> found;
  std::error_code failure;
  const auto bytes = fs::file_size(file_, failure);
  if (failure || bytes <= read_) return found;
  const std::string text = read_from(file_, read_);
  std::size_t done = 0;
  while (true) {
    const std::size_t end = text.find('\n', done);
    if (end == std::string::npos) return found;
    const auto line = parse_ordered_json_object(std::string_view(text).substr(done, end - done), "");
    read_ += end + 1 - done;
    done = end + 1;
    if (!line) continue;
    const auto step = number_under(*line, "step");
    const auto score = line->contains("score") ? number_under(*line, "score") : number_under(*line, metric_);
    if (step && *step >= 0 && *step < 0x1p53 && score) found.push_back({static_cast<std::int64_t>(*step), *score});
  }
}

std::vector<StepScore> MetricsReader::next() {
  std::vector<StepScore> found;
  const auto run = newest_run(trial_folder_);
  if (!run) return found;
  std::error_code failure;
  const auto bytes = fs::file_size(*run / "metrics.csv", failure);
  if (failure || bytes == bytes_) return found;
  bytes_ = bytes;
  const auto metrics = store::read_metrics(*run / "metrics.csv");
  const auto* column = metrics ? metrics->find(column_of(metric_)) : nullptr;
  if (column == nullptr) return found;
  for (std::size_t row = 0; row < metrics->steps.size(); ++row) {
    if (metrics->steps[row] <= step_ || !column->cells[row]) continue;
    found.push_back({metrics->steps[row], *column->cells[row]});
    step_ = metrics->steps[row];
  }
  return found;
}

}  // namespace muster::service
