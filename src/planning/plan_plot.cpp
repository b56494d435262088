#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/svg.hpp"
#include "planning/plan_format.hpp"
#include "planning/plan_report.hpp"

namespace muster::planning {
namespace {

using plan::Component;

constexpr int left = 130, top = 56, bar_height = 26, row_height = 40, bar_length = 640, legend_row = 20;

constexpr std::array<std::string_view, plan::component_count> colours{
    "#2f5d8a", "#5b84ad", "#86a7c6", "#1f3f5f", "#b4532a", "#d98b4a", "#7a4f9a", "#9a76b5",
    "#b79ccc", "#3f8f5b", "#6fb07f", "#9fd0a8", "#c9a227", "#e0c060", "#8a8a8a", "#c9c9c9", "#a9a9a9", "#dddddd"};

double in_gibibytes(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

std::string label(double x, double y, std::string_view text, std::string_view more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n", x, y, more, svg::escaped(text));
}

std::string rank_bar(const plan::Question& question, const plan::RankPlan& rank, double y, double scale) {
  std::string svg = label(left - 10, y + 18, device_name(question, rank), " text-anchor=\"end\"");
  double x = left;
  for (std::size_t i = 0; i < plan::component_count; ++i) {
    const double width = static_cast<double>(rank.memory.bytes[i]) * scale;
    if (width <= 0) continue;
    svg += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" fill=\"{}\"><title>{}: {:.2f} "
        "GiB</title></rect>\n",
        x, y, width, bar_height, colours[i], spoken(static_cast<Component>(i)), in_gibibytes(rank.memory.bytes[i]));
    x += width;
  }
  const std::string needs = fmt::format("{:.1f}", in_gibibytes(rank.memory.total()));
  if (!rank.limit_is_known()) return svg + label(left + bar_length + 12, y + 18, needs + " GiB");
  const double limit = left + static_cast<double>(rank.limit) * scale;
  svg += fmt::format(
      "<line x1=\"{0:.2f}\" y1=\"{1:.1f}\" x2=\"{0:.2f}\" y2=\"{2:.1f}\" stroke=\"{3}\" stroke-width=\"2\"/>\n", limit,
      y - 3, y + bar_height + 3, rank.fits() ? "#222222" : "#cc0000");
  return svg + label(left + bar_length + 12, y + 18, fmt::format("{} of {:.1f} GiB", needs, in_gibibytes(rank.limit)));
}

std::string legend(const plan::Plan& plan, double y) {
  std::string svg;
  int placed = 0;
  for (std::size_t i = 0; i < plan::component_count; ++i) {
    const bool used =
        std::ranges::any_of(plan.ranks, [i](const plan::RankPlan& rank) { return rank.memory.bytes[i] > 0; });
    if (!used) continue;
    const double x = left + placed % 4 * 165, row = y + placed / 4 * legend_row;
    svg +=
        fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"11\" height=\"11\" fill=\"{}\"/>\n", x, row, colours[i]);
    svg += label(x + 16, row + 10, spoken(static_cast<Component>(i)));
    ++placed;
  }
  return svg;
}

}  // namespace

std::string plan_plot(const plan::Question& question, const plan::Plan& plan) {
  std::int64_t longest = 1;
  for (const plan::RankPlan& rank : plan.ranks)
    longest = std::max({longest, rank.memory.total(), rank.limit_is_known() ? rank.limit : 0});
  const double scale = static_cast<double>(bar_length) / static_cast<double>(longest);
  const auto rows = static_cast<int>(plan.ranks.size());
  const int height = top + rows * row_height + 4 * legend_row + 20;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"920\" height=\"{0}\" viewBox=\"0 0 920 {0}\" "
      "font-family=\"sans-serif\" "
      "font-size=\"13\">\n<rect width=\"920\" height=\"{0}\" fill=\"#ffffff\"/>\n",
      height);
  svg += label(16, 24, headline(question, plan), " font-size=\"14\" font-weight=\"bold\"");
  svg += label(16, 42, plan.fits() ? "fits" : "does not fit: " + plan.refusal->reason,
               plan.fits() ? "" : " fill=\"#cc0000\"");
  for (int i = 0; i < rows; ++i)
    svg += rank_bar(question, plan.ranks[static_cast<std::size_t>(i)], top + i * row_height, scale);
  svg += legend(plan, top + rows * row_height + 8);
  return svg + "</svg>\n";
}

}  // namespace muster::planning
