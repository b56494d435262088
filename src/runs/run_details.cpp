#include "runs/run_details.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ranges>

#include "base/text.hpp"
#include "runs/run_format.hpp"
#include "json/json_text.hpp"
#include "store/events_file.hpp"
#include "system/regular_file.hpp"

namespace muster::runs {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

std::string word(const ordered_json& plan, const char* key) {
  const auto found = plan.find(key);
  if (found == plan.end() || found->is_null() || found->is_structured()) return "";
  return found->is_string() ? found->get<std::string>() : shown(*found);
}

Result<std::string> plan_line(const fs::path& path) {
  const auto file = RegularFile::open(path);
  if (!file) return file.error();
  const auto text = file->beginning(file->size());
  if (!text) return text.error();
  const auto plan = parse_json_object(*text, path.string());
  if (!plan) return plan.error();
  std::vector<std::string> parts;
  const auto add = [&](const char* key, std::string_view form) {
    if (const std::string value = word(*plan, key); !value.empty())
      parts.push_back(fmt::format(fmt::runtime(form), value));
  };
  add("strategy", "{}");
  if (const auto ranks = plan->find("ranks"); ranks != plan->end() && ranks->is_array())
    parts.push_back(fmt::format("{} rank{}", ranks->size(), ranks->size() == 1 ? "" : "s"));
  add("micro_batch", "micro-batch {}");
  add("accumulation", "accumulation {}");
  if (const auto count = plan->find("parameters"); count != plan->end() && count->is_number_integer())
    parts.push_back(fmt::format("{} parameters", counted(static_cast<double>(count->get<std::int64_t>()))));
  return join(parts, ", ");
}

// The newest event that reports a failure.
std::optional<std::string> last_failure(const fs::path& path) {
  const auto events = store::read_last_events(path);
  if (!events) return std::nullopt;
  for (const ordered_json& event : std::views::reverse(*events)) {
    if (event.value("event", ordered_json()) != "failed") continue;
    const ordered_json what = event.value("what", ordered_json());
    if (!what.is_string()) continue;
    const ordered_json rank = event.value("rank", ordered_json());
    return rank.is_number_integer() ? fmt::format("rank {}: {}", rank.get<std::int64_t>(), what.get<std::string>())
                                    : what.get<std::string>();
  }
  return std::nullopt;
}

bool is_there(const fs::path& path) {
  std::error_code failure;
  return fs::exists(path, failure);
}

struct ColumnSummary {
  double first = 0, last = 0, least = 0, most = 0;
  std::size_t count = 0;
};

std::optional<ColumnSummary> summarize(const store::MetricsColumn& column) {
  std::optional<ColumnSummary> summary;
  for (const store::Cell& cell : column.cells) {
    if (!cell) continue;
    if (!summary) summary = {*cell, *cell, *cell, *cell, 0};
    summary->last = *cell;
    summary->least = std::fmin(summary->least, *cell);
    summary->most = std::fmax(summary->most, *cell);
    ++summary->count;
  }
  return summary;
}

std::string heading(std::string_view words, bool colour) { return "\n" + paint(Colour::bold, words, colour) + "\n"; }

std::string metrics_text(const store::MetricsTable& metrics, bool colour) {
  std::vector<std::vector<Cell>> rows{{{"  "},
                                       {"first", Colour::dim, true},
                                       {"last", Colour::dim, true},
                                       {"least", Colour::dim, true},
                                       {"most", Colour::dim, true}}};
  const auto cell = [](double value) { return Cell{number_words(value), Colour::plain, true}; };
  for (const store::MetricsColumn& column : metrics.columns)
    if (const auto found = summarize(column))
      rows.push_back({{"  " + safe_line(column.name)},
                      cell(found->first),
                      cell(found->last),
                      cell(found->least),
                      cell(found->most)});
  return rows.size() == 1 ? "" : format_table(rows, colour);
}

std::string headline(const RunSummary& run, bool colour) {
  std::string text = paint(Colour::bold, safe_line(run.name), colour) + "  " +
                     paint(colour_of(run.status), name(run.status), colour) + "\n";
  std::vector<std::string> facts{"made " + store::spoken_time(run.created)};
  if (run.steps)
    facts.push_back(fmt::format("{} {}", counted(static_cast<double>(*run.steps)), *run.steps == 1 ? "step" : "steps"));
  if (run.seconds) facts.push_back(span_words(run.seconds));
  if (run.final_loss) facts.push_back("final loss " + loss_words(run.final_loss));
  if (run.exact_match) facts.push_back("exact match " + share_words(run.exact_match));
  return text + join(facts, ", ") + "\n" + safe_line(run.path.string()) + "\n";
}

std::string checkpoints_text(const RunDetails& run, bool colour) {
  std::string text;
  if (!run.checkpoints.empty()) {
    text += heading("checkpoints", colour);
    for (const RunCheckpoint& checkpoint : run.checkpoints)
      text += fmt::format("  step {}  {}\n", checkpoint.step, to_string(checkpoint.bytes));
  }
  if (run.exported) text += fmt::format("\nmodel: {}\n", (run.summary.path / "model").string());
  return text;
}

std::string indented(std::string_view text) {
  std::string out;
  for (const std::string& line : split(trim(text), '\n')) out += "  " + safe_line(line) + "\n";
  return out;
}

}  // namespace

ByteCount bytes_in(const fs::path& folder) {
  ByteCount bytes;
  std::error_code failure;
  for (fs::recursive_directory_iterator entry(folder, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    std::error_code ignored;
    if (!entry->is_regular_file(ignored)) continue;
    const std::uintmax_t size = entry->file_size(ignored);
    if (!ignored) bytes.value += static_cast<std::int64_t>(size);
  }
  return bytes;
}

RunDetails describe_run(const store::RunFolder& run) {
  RunDetails details;
  details.summary = summarize_run(run);
  const auto problem = [&](const Error& error) { details.problems.push_back(first_line(error.what)); };
  if (is_there(run.spec())) {
    if (auto settings = read_run_settings(spec::Schema(), run.spec()))
      details.settings = std::move(*settings);
    else
      problem(settings.error());
  }
  if (is_there(run.plan())) {
    if (auto line = plan_line(run.plan()))
      details.plan = std::move(*line);
    else
      problem(line.error());
  }
  if (is_there(run.metrics())) {
    if (auto metrics = store::read_metrics(run.metrics()))
      details.metrics = std::move(*metrics);
    else
      problem(metrics.error());
  }
  details.time = read_step_profile(run.events());
  for (const store::CheckpointFolder& checkpoint : store::checkpoint_folders(run))
    details.checkpoints.push_back({checkpoint.step, bytes_in(checkpoint.path)});
  details.exported = is_there(run.model());
  if (const auto result = run.read_result(); result && *result)
    details.last_error = (*result)->error;
  else if (!result)
    problem(result.error());
  if (!details.last_error && details.summary.status != RunStatus::done) details.last_error = last_failure(run.events());
  return details;
}

std::string run_text(const RunDetails& run, const store::TextPlotForm& form) {
  std::string text = headline(run.summary, form.colour);
  for (const std::string& problem : run.problems)
    text += paint(Colour::red, "damaged: " + safe_line(problem), form.colour) + "\n";
  if (run.plan && !run.plan->empty()) text += "plan: " + safe_line(*run.plan) + "\n";
  if (const auto changed = changed_settings(spec::Schema(), run.settings); !changed.empty()) {
    text += heading("settings that are not built-in", form.colour);
    for (const RunSetting& setting : changed)
      text += fmt::format("  {} = {}\n", safe_line(setting.key), safe_line(setting.value));
  }
  if (const std::string table = metrics_text(run.metrics, form.colour); !table.empty())
    text += heading("metrics", form.colour) + table;
  if (const std::string plot = store::text_plot(store::curve_of(run.metrics, "loss"), form); !plot.empty())
    text += heading("loss", form.colour) + plot;
  if (run.time) text += heading("time", form.colour) + "  " + profile_text(*run.time) + "\n";
  text += checkpoints_text(run, form.colour);
  if (run.last_error) text += heading("last error", form.colour) + indented(*run.last_error);
  return text;
}

std::string run_json(const RunDetails& run) {
  ordered_json out = summary_json(run.summary), settings = ordered_json::object(), columns = ordered_json::object(),
               checkpoints = ordered_json::array();
  for (const RunSetting& setting : changed_settings(spec::Schema(), run.settings))
    settings[setting.key] = setting.value;
  for (const store::MetricsColumn& column : run.metrics.columns)
    if (const auto found = summarize(column))
      columns[column.name] = {
          {"first", found->first}, {"last", found->last}, {"least", found->least}, {"most", found->most}};
  for (const RunCheckpoint& checkpoint : run.checkpoints)
    checkpoints.push_back({{"step", checkpoint.step}, {"bytes", checkpoint.bytes.value}});
  out["settings"] = settings;
  out["plan"] = run.plan ? ordered_json(*run.plan) : ordered_json(nullptr);
  out["columns"] = columns;
  out["time"] = run.time ? profile_json(*run.time) : ordered_json(nullptr);
  out["checkpoints"] = checkpoints;
  out["exported"] = run.exported;
  out["error"] = run.last_error ? ordered_json(*run.last_error) : ordered_json(nullptr);
  out["problems"] = run.problems;
  return out.dump(2, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace muster::runs
