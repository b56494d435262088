#include "base/axis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace muster {
namespace {

// 1, 2 or 5 times a power of ten, at least as large as least.
double round_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

Axis with_step(double least, double most, double step, bool widen) {
  Axis axis{least, most, {}, static_cast<int>(-std::floor(std::log10(step) + 1e-9))};
  if (widen) {
    axis.low = std::floor(least / step + 1e-9) * step;
    axis.high = std::ceil(most / step - 1e-9) * step;
  }
  const double first = std::ceil(axis.low / step - 1e-9);
  for (double count = first; count * step <= axis.high + step * 1e-9; ++count) axis.ticks.push_back(count * step);
  return axis;
}

// Equal bounds do not make an axis: space is added on both sides.
void part(double& least, double& most) {
  const double size = std::max(std::abs(least), std::abs(most));
  if (most - least > size * 1e-9) return;
  const double room = size > 0 ? size * 0.1 : 1;
  least -= room;
  most += room;
}

}  // namespace

std::string Axis::label(double tick) const {
  const double value = std::abs(tick) < (high - low) * 1e-9 ? 0.0 : tick;  // no "-0", no 1e-17
  const double size = std::max(std::abs(low), std::abs(high));
  if (size < 1e7 && size >= 1e-4) return fmt::format("{:.{}f}", value, std::max(decimals, 0));
  const int digits = decimals + static_cast<int>(std::floor(std::log10(size))) + 1;
  return fmt::format("{:.{}g}", value, std::clamp(digits, 1, 15));
}

Axis make_axis(double least, double most, int wanted, bool widen) {
  part(least, most);
  return with_step(least, most, round_step((most - least) / wanted), widen);
}

Axis make_count_axis(double least, double most, int wanted) {
  if (most - least < 1) most = least + 1;
  return with_step(least, most, std::max(1.0, round_step((most - least) / wanted)), false);
}

}  // namespace muster
