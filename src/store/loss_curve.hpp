// The loss of a run over its steps, ready to be drawn.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "store/metrics_table.hpp"

namespace muster::store {

struct CurvePoint {
  double step = 0;
  double value = 0;
};
using Curve = std::vector<CurvePoint>;  // steps increase; values are finite

// The cells of a column that are present and finite.
Curve curve_of(const MetricsTable& table, std::string_view column);

// Each point as a mean of the points around it, which weigh the less the further away they are.
Curve smoothed(const Curve& curve);

// At most about 2 × columns points that draw the same line on this many columns: the lowest and highest of each column.
Curve thinned(const Curve& curve, std::size_t columns);

struct CurveBounds {
  double first = 0, last = 0;  // steps
  double least = 0, most = 0;  // values
};
// Nothing if none of them has a point.
std::optional<CurveBounds> bounds_of(std::span<const Curve* const> curves);

}  // namespace muster::store
