#include "store/axis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace muster::store {
namespace {

// 1, 2 or 5 times a power of ten, at least as large as least.
double round_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

Axis with_step(double least, double most, double step, bool widen) {
  Axis axis{least, most, {}, std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)))};
  if (widen) {
    axis.low = std::floor(least / step + 1e-9) * step;
    axis.high = std::ceil(most / step - 1e-9) * step;
  }
  const double first = std::ceil(axis.low / step - 1e-9);
  for (double count = first; count * step <= axis.high + step * 1e-9; ++count) axis.ticks.push_back(count * step);
  return axis;
}

// Equal bounds make no axis: there is room on both sides.
void part(double& least, double& most, double smallest) {
  const double room = std::max({smallest, std::abs(least) * 1e-6, std::abs(most) * 1e-6});
  if (most - least >= room) return;
  least -= room / 2;
  most += room / 2;
}

}  // namespace

std::string Axis::label(double tick) const {
  const double size = std::max(std::abs(low), std::abs(high));
  if (size >= 1e7 || decimals > 6) return fmt::format("{:.3g}", tick);
  return fmt::format("{:.{}f}", tick == 0 ? 0.0 : tick, decimals);  // no "-0"
}

Axis make_axis(double least, double most, int wanted, bool widen) {
  part(least, most, 1e-6);
  return with_step(least, most, round_step((most - least) / wanted), widen);
}

Axis make_count_axis(double least, double most, int wanted) {
  if (most - least < 1) most = least + 1;
  return with_step(least, most, std::max(1.0, round_step((most - least) / wanted)), false);
}

}  // namespace muster::store
