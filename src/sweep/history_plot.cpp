#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/axis.hpp"
#include "base/svg.hpp"
#include "sweep/sweep_plot.hpp"

namespace muster::sweep {
namespace {

using svg::label, svg::line;

constexpr int width = 760, height = 380, left = 70, right = 740, top = 50, bottom = 330;

constexpr svg::Colours colours{".trial{fill:#9fb8d1}.best{stroke:#2f5d8a}.failed{stroke:#b4532a}",
                               ".trial{fill:#44607c}.best{stroke:#86b4e0}.failed{stroke:#e79a5f}"};

struct Frame {
  Axis trials, score;
  double x(std::size_t index) const { return left + trials.share(static_cast<double>(index)) * (right - left); }
  double y(double value) const { return bottom - score.share(value) * (bottom - top); }
};

std::optional<Frame> frame_of(std::span<const Observation> observations) {
  std::optional<double> least, most;
  for (const Observation& observation : observations) {
    if (observation.failed()) continue;
    least = std::min(least.value_or(*observation.score), *observation.score);
    most = std::max(most.value_or(*observation.score), *observation.score);
  }
  if (!least) return std::nullopt;
  return Frame{make_count_axis(1, static_cast<double>(observations.size()), 8), make_axis(*least, *most, 6, true)};
}

std::string axes(const Frame& frame, std::string_view metric) {
  std::string text;
  for (const double tick : frame.score.ticks) {
    text += line("grid", left, frame.y(tick), right, frame.y(tick));
    text += label(left - 8, frame.y(tick) + 4, frame.score.label(tick), "end");
  }
  for (const double tick : frame.trials.ticks) {
    const double x = left + frame.trials.share(tick) * (right - left);
    text += line("axis", x, bottom, x, bottom + 5) + label(x, bottom + 20, frame.trials.label(tick), "middle");
  }
  text += line("axis", left, bottom, right, bottom) + line("axis", left, top, left, bottom);
  return text + label((left + right) / 2.0, height - 8, "trial", "middle") +
         svg::rising_label(16, (top + bottom) / 2.0, metric);
}

std::string dot(const Frame& frame, std::size_t index, const Observation& observation) {
  const double x = frame.x(index);
  if (observation.failed())
    return fmt::format("<path class=\"failed\" d=\"M{0:.1f} {1}l6 6m0 -6l-6 6\"><title>{2}: failed</title></path>\n",
                       x - 3, bottom - 10, svg::escaped(observation.trial));
  return fmt::format("<circle class=\"trial\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"><title>{}: {:.6g}</title></circle>\n",
                     x, frame.y(*observation.score), svg::escaped(observation.trial), *observation.score);
}

}  // namespace

std::string history_svg(std::string_view title, const SweepSpec& spec, std::span<const Observation> observations) {
  std::string text = svg::beginning(width, height, title, colours);
  const auto frame = frame_of(observations);
  if (!frame)
    return text + label(width / 2.0, height / 2.0, "no trial has a score", "middle") + std::string(svg::ending);
  text += axes(*frame, spec.metric);
  std::string path;
  std::optional<double> best;
  for (std::size_t i = 0; i < observations.size(); ++i) {
    text += dot(*frame, i + 1, observations[i]);
    if (!observations[i].failed() &&
        (!best || oriented(spec.goal, *observations[i].score) > oriented(spec.goal, *best))) {
      best = observations[i].score;
      path += path.empty() ? fmt::format("M{:.1f} {:.1f}", frame->x(i + 1), frame->y(*best))
                           : fmt::format("H{:.1f}V{:.1f}", frame->x(i + 1), frame->y(*best));
    }
  }
  path += fmt::format("H{:.1f}", frame->x(observations.size()));
  text += fmt::format("<path class=\"best\" fill=\"none\" stroke-width=\"2\" d=\"{}\"/>\n", path);
  text += line("best", 600, 26, 620, 26) + label(626, 30, "best so far", "start");
  return text + std::string(svg::ending);
}

}  // namespace muster::sweep
