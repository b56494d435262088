// Curves as text, for a terminal or a log.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "store/loss_curve.hpp"

namespace muster::store {

struct TextPlotForm {
  std::size_t width = 80;  // columns of the terminal; below 30 it is drawn as if there were 30
  std::size_t height = 12;
  bool unicode = true;  // else nothing but ASCII
  bool colour = false;
};

struct NamedCurve {
  std::string name;
  Curve curve;
};

// One curve, in dots finer than a character where the terminal has Unicode. Ends in a newline; empty where there is
// nothing to draw.
std::string text_plot(const Curve& curve, const TextPlotForm& form);

// Two curves in one frame, as A and B, * where they meet; then a line that says which is which.
std::string text_plot_of_two(const NamedCurve& first, const NamedCurve& second, const TextPlotForm& form);

}  // namespace muster::store
