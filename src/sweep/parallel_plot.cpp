#include <fmt/format.h>

#include <algorithm>

#include "base/axis.hpp"
#include "base/svg.hpp"
#include "sweep/best_trials.hpp"
#include "sweep/sweep_plot.hpp"

namespace muster::sweep {
namespace {

using svg::label, svg::line;

constexpr int left = 70, right_margin = 80, top = 70, bottom = 330, height = 380, between = 140;
constexpr std::size_t most_lines = 400;

constexpr svg::Colours parallel_colours{".trial{stroke:#2f5d8a}", ".trial{stroke:#86b4e0}"};

// One vertical line of the picture: parameters by their place on [-1, 1], the score by a number.
struct Column {
  double x = 0;
  const Parameter* parameter = nullptr;  // null: the score
  Axis score;

  static double height_of(double share) { return bottom - share * (bottom - top); }
  double y(const Observation& observation) const {
    if (parameter == nullptr) return height_of(score.share(*observation.score));
    const Value* value = find(observation.settings, parameter->path);
    return height_of((to_unit(*parameter, *value).value_or(0) + 1) / 2);
  }
};

std::string short_text(const Value& value) {
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{:.3g}", *number);
  const std::string text = to_text(value);
  return text.size() > 14 ? text.substr(0, 13) + "…" : text;
}

std::string ticks(const Column& column) {
  std::string text;
  if (column.parameter == nullptr) {
    for (const double tick : column.score.ticks)
      text += label(column.x + 6, Column::height_of(column.score.share(tick)) + 4, column.score.label(tick), "start");
    return text;
  }
  const auto count = count_values(*column.parameter);
  const std::uint64_t shown = count && *count <= 8 ? *count : 5;
  for (std::uint64_t i = 0; i < shown; ++i) {
    const bool all = count && *count == shown;
    const double unit = -1 + (all ? (2 * static_cast<double>(i) + 1) / static_cast<double>(shown)
                                  : 2 * static_cast<double>(i) / static_cast<double>(shown - 1));
    text += label(column.x + 6, Column::height_of((unit + 1) / 2) + 4, short_text(from_unit(*column.parameter, unit)),
                  "start");
  }
  return text;
}

std::string axis(const Column& column, std::string_view name, bool raised) {
  return line("axis", column.x, top, column.x, bottom) + ticks(column) +
         label(column.x, raised ? top - 10 : bottom + 20, name, "middle");
}

// rank: 0 is the best of count.
std::string polyline(const std::vector<Column>& columns, const Observation& observation, std::size_t rank,
                     std::size_t count) {
  std::string points;
  for (const Column& column : columns) points += fmt::format("{:.1f},{:.1f} ", column.x, column.y(observation));
  const double strength = count < 2 ? 1 : 1 - static_cast<double>(rank) / static_cast<double>(count - 1);
  return fmt::format(
      "<polyline class=\"trial\" fill=\"none\" stroke-opacity=\"{:.2f}\" stroke-width=\"{}\" points=\"{}\">"
      "<title>{}: {:.6g}</title></polyline>\n",
      0.08 + 0.92 * strength * strength * strength, rank == 0 ? 2.5 : 1, points, svg::escaped(observation.trial),
      *observation.score);
}

std::vector<Column> columns_of(const Space& space) {
  std::vector<Column> columns;
  double x = left;
  for (const Parameter& parameter : space.parameters) {
    if (!varies(parameter)) continue;
    columns.push_back({x, &parameter, {}});
    x += between;
  }
  columns.push_back({x, nullptr, {}});
  return columns;
}

}  // namespace

std::string parallel_svg(std::string_view title, const SweepSpec& spec, std::span<const Observation> observations) {
  std::vector<Column> columns = columns_of(spec.space);
  const int width = std::max(480, static_cast<int>(columns.back().x) + right_margin);
  std::string text = svg::beginning(width, height, title, parallel_colours);
  std::vector<Observation> best = best_trials(observations, spec.goal, observations.size());
  std::erase_if(best, [&](const Observation& one) { return !point_of(spec.space, one.settings); });
  if (best.size() > most_lines) best.resize(most_lines);
  if (best.empty())
    return text + label(width / 2.0, height / 2.0, "no trial has a score", "middle") + std::string(svg::ending);
  const auto [low, high] = std::minmax(*best.front().score, *best.back().score);
  columns.back().score = make_axis(low, high, 6, true);
  for (std::size_t i = best.size(); i-- > 0;) text += polyline(columns, best[i], i, best.size());
  for (std::size_t i = 0; i < columns.size(); ++i)
    text += axis(columns[i], columns[i].parameter != nullptr ? columns[i].parameter->path : spec.metric, i % 2 == 1);
  return text + std::string(svg::ending);
}

}  // namespace muster::sweep
