#include "store/loss_plot.hpp"

#include <fmt/format.h>

#include <array>
#include <optional>

#include "base/plot_frame.hpp"
#include "base/svg.hpp"

namespace muster::store {
namespace {

using svg::label, svg::line;
using Frame = svg::PlotFrame;

constexpr int width = Frame::width, height = Frame::height;

constexpr svg::Colours colours{".loss{stroke:#9fb8d1}.smooth{stroke:#2f5d8a}.eval{fill:#b4532a}",
                               ".loss{stroke:#44607c}.smooth{stroke:#86b4e0}.eval{fill:#e79a5f}"};

std::string path(std::string_view kind, const Curve& curve, const Frame& frame, double thickness) {
  if (curve.empty()) return "";
  std::string points;
  for (const CurvePoint& point : curve)
    points += fmt::format("{}{:.1f} {:.1f}", points.empty() ? "M" : "L", frame.x(point.step), frame.y(point.value));
  if (curve.size() == 1) points += "h0.1";  // a dot, with round ends
  return fmt::format("<path class=\"{}\" fill=\"none\" stroke-width=\"{}\" stroke-linecap=\"round\" d=\"{}\"/>\n", kind,
                     thickness, points);
}

std::string dots(const Curve& curve, const Frame& frame) {
  std::string text;
  for (const CurvePoint& point : curve)
    text += fmt::format(
        "<circle class=\"eval\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"><title>step {}: {:.6g}</title></circle>\n",
        frame.x(point.step), frame.y(point.value), point.step, point.value);
  return text;
}

std::string legend(bool evaluated) {
  std::string text = line("loss", 470, 26, 490, 26) + label(496, 30, "loss", "start");
  text += "<line class=\"smooth\" stroke-width=\"2\" x1=\"540\" y1=\"26\" x2=\"560\" y2=\"26\"/>\n" +
          label(566, 30, "smoothed", "start");
  if (evaluated)
    text += "<circle class=\"eval\" cx=\"648\" cy=\"26\" r=\"3.5\"/>\n" + label(658, 30, "evaluation", "start");
  return text;
}

std::optional<Frame> frame_of(const Curve& loss, const Curve& evaluation) {
  const auto bounds = bounds_of(std::array{&loss, &evaluation});
  if (!bounds) return std::nullopt;
  return Frame{make_count_axis(bounds->first, bounds->last, 8), make_axis(bounds->least, bounds->most, 6, true)};
}

}  // namespace

std::string loss_svg(std::string_view title, const MetricsTable& metrics) {
  const Curve loss = curve_of(metrics, "loss"), evaluation = thinned(curve_of(metrics, "eval_loss"), 200);
  std::string text = svg::beginning(width, height, title, colours);
  const auto frame = frame_of(loss, evaluation);
  if (!frame)
    return text + label(width / 2.0, height / 2.0, "no loss was recorded", "middle") + std::string(svg::ending);
  constexpr std::size_t columns = Frame::right - Frame::left;
  text += svg::axes(*frame, "step", "loss") + path("loss", thinned(loss, columns), *frame, 1);
  text += path("smooth", thinned(smoothed(loss), columns / 2), *frame, 2);
  return text + dots(evaluation, *frame) + legend(!evaluation.empty()) + std::string(svg::ending);
}

}  // namespace muster::store
