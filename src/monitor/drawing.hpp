// A sample as text: a screen of a given size, or all of it for a pipe. Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "monitor/sample.hpp"
#include "monitor/view.hpp"

namespace muster::monitor {

struct DrawStyle {
  bool colour = false;
  bool unicode = true;
};

// As many lines as the screen has, none wider than it. The view is settled.
std::vector<std::string> draw(const Sample& sample, const ViewState& state, ScreenSize size, DrawStyle style);

// Everything, as plain lines of whatever length.
std::string plain_text(const Sample& sample, DrawStyle style);

// How many lines the GPUs take when several share one.
std::size_t dense_gpu_lines(const Sample& sample, std::size_t width);

}  // namespace muster::monitor
