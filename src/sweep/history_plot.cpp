#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/plot_frame.hpp"
#include "base/svg.hpp"
#include "sweep/sweep_plot.hpp"

namespace muster::sweep {
namespace {

using svg::label, svg::line;
using Frame = svg::PlotFrame;

constexpr svg::Colours history_colours{".trial{fill:#9fb8d1}.best{stroke:#2f5d8a}.failed{stroke:#b4532a}",
                                       ".trial{fill:#44607c}.best{stroke:#86b4e0}.failed{stroke:#e79a5f}"};

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

std::string dot(const Frame& frame, double place, const Observation& observation) {
  const double x = frame.x(place);
  if (observation.failed())
    return fmt::format("<path class=\"failed\" d=\"M{0:.1f} {1}l6 6m0 -6l-6 6\"><title>{2}: failed</title></path>\n",
                       x - 3, Frame::bottom - 10, svg::escaped(observation.trial));
  return fmt::format("<circle class=\"trial\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"><title>{}: {:.6g}</title></circle>\n",
                     x, frame.y(*observation.score), svg::escaped(observation.trial), *observation.score);
}

}  // namespace

std::string history_svg(std::string_view title, const SweepSpec& spec, std::span<const Observation> observations) {
  std::string text = svg::beginning(Frame::width, Frame::height, title, history_colours);
  const auto frame = frame_of(observations);
  if (!frame)
    return text + label(Frame::width / 2.0, Frame::height / 2.0, "no trial has a score", "middle") +
           std::string(svg::ending);
  text += svg::axes(*frame, "trial", spec.metric);
  std::string path;
  std::optional<double> best;
  for (std::size_t i = 0; i < observations.size(); ++i) {
    const auto place = static_cast<double>(i + 1);
    text += dot(*frame, place, observations[i]);
    if (!observations[i].failed() &&
        (!best || oriented(spec.goal, *observations[i].score) > oriented(spec.goal, *best))) {
      best = observations[i].score;
      path += path.empty() ? fmt::format("M{:.1f} {:.1f}", frame->x(place), frame->y(*best))
                           : fmt::format("H{:.1f}V{:.1f}", frame->x(place), frame->y(*best));
    }
  }
  path += fmt::format("H{:.1f}", frame->x(static_cast<double>(observations.size())));
  text += fmt::format("<path class=\"best\" fill=\"none\" stroke-width=\"2\" d=\"{}\"/>\n", path);
  text += line("best", 600, 26, 620, 26) + label(626, 30, "best so far", "start");
  return text + std::string(svg::ending);
}

}  // namespace muster::sweep
