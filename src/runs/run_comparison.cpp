#include "runs/run_comparison.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/count_of.hpp"
#include "base/table.hpp"
#include "runs/run_format.hpp"

namespace muster::runs {
namespace {

using nlohmann::ordered_json;

bool same_bits(const store::Cell& a, const store::Cell& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  return std::bit_cast<std::uint64_t>(*a) == std::bit_cast<std::uint64_t>(*b) || (std::isnan(*a) && std::isnan(*b));
}

double distance(const store::Cell& a, const store::Cell& b) {
  const double difference = a && b ? std::abs(*a - *b) : std::nan("");
  return std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
}

std::string curve_sentence(const RunComparison& comparison) {
  const CurveComparison& loss = comparison.loss;
  if (loss.common == 0) return "the runs have no step in common\n";
  if (loss.equal()) return fmt::format("the loss is equal bit for bit at {}\n",
                                       loss.common == 1 ? "the one step" : fmt::format("all {} steps", loss.common));
  std::string text;
  if (loss.first_difference)
    text = fmt::format("the loss differs first at step {}; largest difference {:.3g}\n", *loss.first_difference,
                       loss.largest_difference);
  else
    text = fmt::format("the loss is equal bit for bit at the {} that both have\n", count_of(loss.common, "step"));
  const auto extra = [&](const char* letter, const store::MetricsTable& metrics) {
    if (metrics.steps.size() > loss.common)
      text += fmt::format("{} has {} that the other has not\n", letter,
                          count_of(metrics.steps.size() - loss.common, "step"));
  };
  extra("A", comparison.first.metrics);
  extra("B", comparison.second.metrics);
  return text;
}

// Names of both tables' columns, in the order of the first, then of the second.
std::vector<std::string> column_names(const store::MetricsTable& first, const store::MetricsTable& second) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const store::MetricsTable* table : {&first, &second})
    for (const store::MetricsColumn& column : table->columns)
      if (seen.insert(column.name).second) names.push_back(column.name);
  return names;
}

std::string final_metrics(const RunComparison& comparison, bool colour) {
  const auto& [a, b] = std::tie(comparison.first, comparison.second);
  const auto status = [](const RunSummary& run) {
    return Cell{std::string(name(run.status)), colour_of(run.status), true};
  };
  const auto steps = [](const RunSummary& run) {
    return Cell{run.steps ? counted(static_cast<double>(*run.steps)) : "-", Colour::plain, true};
  };
  const auto number = [](const store::Cell& cell) { return Cell{number_words(cell), Colour::plain, true}; };
  std::vector<std::vector<Cell>> rows{{{""}, {"A", Colour::bold, true}, {"B", Colour::bold, true}},
                                      {{"  status"}, status(a.summary), status(b.summary)},
                                      {{"  steps"}, steps(a.summary), steps(b.summary)}};
  for (const std::string& column : column_names(a.metrics, b.metrics)) {
    const store::Cell of_a = a.metrics.last(column), of_b = b.metrics.last(column);
    if (of_a || of_b) rows.push_back({{"  " + safe_line(column)}, number(of_a), number(of_b)});
  }
  return format_table(rows, colour);
}

}  // namespace

CurveComparison compare_curves(const store::MetricsTable& first, const store::MetricsTable& second) {
  CurveComparison comparison;
  const store::MetricsColumn* a = first.find("loss");
  const store::MetricsColumn* b = second.find("loss");
  if (a == nullptr || b == nullptr) return comparison;
  for (std::size_t i = 0, j = 0; i < first.steps.size() && j < second.steps.size();) {
    if (first.steps[i] != second.steps[j]) {
      ++(first.steps[i] < second.steps[j] ? i : j);
      continue;
    }
    ++comparison.common;
    if (!same_bits(a->cells[i], b->cells[j])) {
      if (!comparison.first_difference) comparison.first_difference = first.steps[i];
      comparison.largest_difference = std::fmax(comparison.largest_difference, distance(a->cells[i], b->cells[j]));
    }
    ++i;
    ++j;
  }
  comparison.same_steps = first.steps == second.steps;
  return comparison;
}

RunComparison compare_runs(const store::RunFolder& first, const store::RunFolder& second) {
  RunComparison comparison{describe_run(first), describe_run(second), {}, {}};
  comparison.settings = setting_differences(spec::Schema(), comparison.first.settings, comparison.second.settings);
  comparison.loss = compare_curves(comparison.first.metrics, comparison.second.metrics);
  return comparison;
}

std::string comparison_text(const RunComparison& comparison, const store::TextPlotForm& form) {
  const auto& [a, b] = std::tie(comparison.first, comparison.second);
  std::string text = fmt::format("A {}\nB {}\n", safe_line(a.summary.name), safe_line(b.summary.name));
  for (const RunDetails* run : {&a, &b})
    for (const std::string& problem : run->problems)
      text += paint(Colour::red, "damaged: " + safe_line(problem), form.colour) + "\n";
  text += "\n" + paint(Colour::bold, "settings that differ", form.colour) + "\n";
  if (comparison.settings.empty()) text += "  none\n";
  for (const SettingDifference& difference : comparison.settings)
    text +=
        fmt::format("  {}: A {}, B {}\n", safe_line(difference.key), safe_line(difference.first.value_or("not set")),
                    safe_line(difference.second.value_or("not set")));
  text += "\n" + paint(Colour::bold, "final metrics", form.colour) + "\n" + final_metrics(comparison, form.colour);
  text += "\n" + paint(Colour::bold, "loss", form.colour) + "\n";
  text += store::text_plot_of_two({safe_line(a.summary.name), store::curve_of(a.metrics, "loss")},
                                  {safe_line(b.summary.name), store::curve_of(b.metrics, "loss")}, form);
  return text + curve_sentence(comparison);
}

std::string comparison_json(const RunComparison& comparison) {
  ordered_json settings = ordered_json::object();
  const auto or_null = [](const std::optional<std::string>& text) {
    return text ? ordered_json(*text) : ordered_json(nullptr);
  };
  for (const SettingDifference& difference : comparison.settings)
    settings[difference.key] = {or_null(difference.first), or_null(difference.second)};
  const CurveComparison& loss = comparison.loss;
  const ordered_json out{
      {"first", summary_json(comparison.first.summary)},
      {"second", summary_json(comparison.second.summary)},
      {"settings", settings},
      {"loss",
       {{"common_steps", loss.common},
        {"first_difference", loss.first_difference ? ordered_json(*loss.first_difference) : ordered_json(nullptr)},
        {"largest_difference", loss.largest_difference},
        {"equal", loss.equal()}}}};
  return out.dump(2, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace muster::runs
