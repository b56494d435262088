#include "base/plot_frame.hpp"

#include "base/svg.hpp"

namespace muster::svg {

std::string axes(const PlotFrame& frame, std::string_view across, std::string_view up) {
  constexpr int left = PlotFrame::left, right = PlotFrame::right, top = PlotFrame::top, bottom = PlotFrame::bottom;
  std::string text;
  for (const double tick : frame.up.ticks) {
    text += line("grid", left, frame.y(tick), right, frame.y(tick));
    text += label(left - 8, frame.y(tick) + 4, frame.up.label(tick), "end");
  }
  for (const double tick : frame.across.ticks) {
    text += line("axis", frame.x(tick), bottom, frame.x(tick), bottom + 5);
    text += label(frame.x(tick), bottom + 20, frame.across.label(tick), "middle");
  }
  text += line("axis", left, bottom, right, bottom) + line("axis", left, top, left, bottom);
  text += label((left + right) / 2.0, PlotFrame::height - 8, across, "middle");
  return text + rising_label(16, (top + bottom) / 2.0, up);
}

}  // namespace muster::svg
