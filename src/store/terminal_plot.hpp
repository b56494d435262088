// Curves as text, for a terminal or a log.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "store/loss_curve.hpp"

namespace muster::store {

struct TextPlotForm {
  std::size_t width = 80;  // columns of the terminal; fewer than 30 count as 30
  std::size_t height = 12;
  bool unicode = true;  // else only ASCII
  bool colour = false;
};

struct NamedCurve {
  std::string name;
  Curve curve;
};

// One curve, in dots finer than a character if the terminal has Unicode. Ends in a newline; empty if there is
// nothing to draw.
std::string text_plot(const Curve& curve, const TextPlotForm& form);

// Two curves in one frame, as A and B, * where they meet; then a line that says which is which.
std::string text_plot_of_two(const NamedCurve& first, const NamedCurve& second, const TextPlotForm& form);

}  // namespace muster::store
