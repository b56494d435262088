// The frame of a plot over steps or counts: where values are in the picture, and the axes with their labels.
#pragma once

#include <string>
#include <string_view>

#include "base/axis.hpp"

namespace muster::svg {

struct PlotFrame {
  static constexpr int width = 760, height = 380, left = 70, right = 740, top = 50, bottom = 330;

  Axis across, up;

  double x(double value) const { return left + across.share(value) * (right - left); }
  double y(double value) const { return bottom - up.share(value) * (bottom - top); }
};

std::string axes(const PlotFrame& frame, std::string_view across, std::string_view up);

}  // namespace muster::svg
