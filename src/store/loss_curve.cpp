#include "store/loss_curve.hpp"

#include <algorithm>
#include <cmath>

namespace muster::store {

Curve curve_of(const MetricsTable& table, std::string_view column) {
  Curve curve;
  const MetricsColumn* found = table.find(column);
  if (found == nullptr) return curve;
  for (std::size_t row = 0; row < table.steps.size(); ++row)
    if (const Cell& cell = found->cells[row]; cell && std::isfinite(*cell))
      curve.push_back({static_cast<double>(table.steps[row]), *cell});
  return curve;
}

Curve smoothed(const Curve& curve) {
  const double span = std::max(1.0, static_cast<double>(curve.size()) / 60);
  const double kept = 1 - 1 / span;
  std::vector<double> sums(curve.size()), weights(curve.size());
  const auto sweep = [&](auto begin, auto end, auto index) {
    double sum = 0, weight = 0;
    for (auto point = begin; point != end; ++point) {
      sums[index(point)] += sum;  // of the points before it, in the direction of the sweep
      weights[index(point)] += weight;
      sum = (sum + point->value) * kept;
      weight = (weight + 1) * kept;
    }
  };
  sweep(curve.begin(), curve.end(), [&](auto point) { return static_cast<std::size_t>(point - curve.begin()); });
  sweep(curve.rbegin(), curve.rend(),
        [&](auto point) { return curve.size() - 1 - static_cast<std::size_t>(point - curve.rbegin()); });
  Curve smooth;
  for (std::size_t i = 0; i < curve.size(); ++i)
    smooth.push_back({curve[i].step, (sums[i] + curve[i].value) / (weights[i] + 1)});
  return smooth;
}

Curve thinned(const Curve& curve, std::size_t columns) {
  if (columns == 0 || curve.size() <= 2 * columns) return curve;
  Curve thin;
  for (std::size_t column = 0; column < columns; ++column) {
    const auto begin = curve.begin() + static_cast<std::ptrdiff_t>(column * curve.size() / columns);
    const auto end = curve.begin() + static_cast<std::ptrdiff_t>((column + 1) * curve.size() / columns);
    auto [low, high] =
        std::minmax_element(begin, end, [](const CurvePoint& a, const CurvePoint& b) { return a.value < b.value; });
    if (high < low) std::swap(low, high);
    thin.push_back(*low);
    if (high != low) thin.push_back(*high);
  }
  return thin;
}

std::optional<CurveBounds> bounds_of(std::span<const Curve* const> curves) {
  std::optional<CurveBounds> bounds;
  for (const Curve* curve : curves)
    for (const CurvePoint& point : *curve) {
      if (!bounds) bounds = {point.step, point.step, point.value, point.value};
      bounds->first = std::min(bounds->first, point.step);
      bounds->last = std::max(bounds->last, point.step);
      bounds->least = std::min(bounds->least, point.value);
      bounds->most = std::max(bounds->most, point.value);
    }
  return bounds;
}

}  // namespace muster::store
