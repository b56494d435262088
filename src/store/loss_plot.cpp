#include "store/loss_plot.hpp"

#include <fmt/format.h>

#include <array>
#include <optional>

#include "store/axis.hpp"

namespace muster::store {
namespace {

constexpr int width = 760, height = 380, left = 70, right = 740, top = 50, bottom = 330;

// Colours of both themes; whoever shows the picture says which.
constexpr std::string_view style =
    "<style>\n"
    ".back{fill:#ffffff}.text{fill:#333333}.grid{stroke:#e3e3e3}.axis{stroke:#888888}\n"
    ".loss{stroke:#9fb8d1}.smooth{stroke:#2f5d8a}.eval{fill:#b4532a}\n"
    "@media (prefers-color-scheme:dark){\n"
    ".back{fill:#16191d}.text{fill:#d0d0d0}.grid{stroke:#2c3137}.axis{stroke:#777777}\n"
    ".loss{stroke:#44607c}.smooth{stroke:#86b4e0}.eval{fill:#e79a5f}}\n"
    "</style>\n";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char letter : text) switch (letter) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      default:
        out += static_cast<unsigned char>(letter) < 0x20 ? ' ' : letter;
    }
  return out;
}

struct Frame {
  Axis steps, loss;
  double x(double step) const { return left + steps.share(step) * (right - left); }
  double y(double value) const { return bottom - loss.share(value) * (bottom - top); }
};

std::string label(double x, double y, std::string_view text, std::string_view anchor) {
  return fmt::format("<text class=\"text\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escaped(text));
}

std::string line(std::string_view kind, double x1, double y1, double x2, double y2) {
  return fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", kind, x1, y1, x2,
                     y2);
}

std::string axes(const Frame& frame) {
  std::string svg;
  for (const double tick : frame.loss.ticks) {
    svg += line("grid", left, frame.y(tick), right, frame.y(tick));
    svg += label(left - 8, frame.y(tick) + 4, frame.loss.label(tick), "end");
  }
  for (const double tick : frame.steps.ticks) {
    svg += line("axis", frame.x(tick), bottom, frame.x(tick), bottom + 5);
    svg += label(frame.x(tick), bottom + 20, frame.steps.label(tick), "middle");
  }
  svg += line("axis", left, bottom, right, bottom) + line("axis", left, top, left, bottom);
  svg += label((left + right) / 2.0, height - 8, "step", "middle");
  return svg +
         fmt::format(
             "<text class=\"text\" transform=\"translate(16 {}) rotate(-90)\" text-anchor=\"middle\">loss</text>\n",
             (top + bottom) / 2);
}

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
  std::string svg;
  for (const CurvePoint& point : curve)
    svg += fmt::format(
        "<circle class=\"eval\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"><title>step {}: {:.6g}</title></circle>\n",
        frame.x(point.step), frame.y(point.value), point.step, point.value);
  return svg;
}

std::string legend(bool evaluated) {
  std::string svg = line("loss", 470, 26, 490, 26) + label(496, 30, "loss", "start");
  svg += "<line class=\"smooth\" stroke-width=\"2\" x1=\"540\" y1=\"26\" x2=\"560\" y2=\"26\"/>\n" +
         label(566, 30, "smoothed", "start");
  if (evaluated)
    svg += "<circle class=\"eval\" cx=\"648\" cy=\"26\" r=\"3.5\"/>\n" + label(658, 30, "evaluation", "start");
  return svg;
}

std::optional<Frame> frame_of(const Curve& loss, const Curve& evaluation) {
  const auto bounds = bounds_of(std::array{&loss, &evaluation});
  if (!bounds) return std::nullopt;
  return Frame{make_count_axis(bounds->first, bounds->last, 8), make_axis(bounds->least, bounds->most, 6, true)};
}

}  // namespace

std::string loss_svg(std::string_view title, const MetricsTable& metrics) {
  const Curve loss = curve_of(metrics, "loss"), evaluation = thinned(curve_of(metrics, "eval_loss"), 200);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n{2}<rect class=\"back\" width=\"{0}\" height=\"{1}\"/>\n",
      width, height, style);
  svg += fmt::format("<text class=\"text\" x=\"16\" y=\"30\" font-size=\"14\" font-weight=\"bold\">{}</text>\n",
                     escaped(title));
  const auto frame = frame_of(loss, evaluation);
  if (!frame) return svg + label(width / 2.0, height / 2.0, "no loss was recorded", "middle") + "</svg>\n";
  constexpr std::size_t columns = right - left;
  svg += axes(*frame) + path("loss", thinned(loss, columns), *frame, 1);
  svg += path("smooth", thinned(smoothed(loss), columns / 2), *frame, 2);
  return svg + dots(evaluation, *frame) + legend(!evaluation.empty()) + "</svg>\n";
}

}  // namespace muster::store
