// loss.svg: the loss of a run as a picture.
#pragma once

#include <string>
#include <string_view>

#include "store/loss_curve.hpp"

namespace muster::store {

// The loss of each step, its smoothed course and the points of evaluation, with axes and a legend. A picture of its own
// size that is readable on white and on black; well below 100 KB whatever the number of steps.
std::string loss_svg(std::string_view title, const MetricsTable& metrics);

}  // namespace muster::store
