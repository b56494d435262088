#include "sweep/search/normal_curve.hpp"

#include <cmath>
#include <numbers>

namespace muster::sweep {
namespace {

const double log_of_root = 0.5 * std::log(2 * std::numbers::pi);

}  // namespace

double normal_density(double x) { return std::exp(-0.5 * x * x - log_of_root); }

double normal_cumulative(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

double normal_quantile(double share) {
  double low = -40, high = 40;
  while (high - low > 1e-14 * std::fmax(1, std::fabs(low))) {
    const double middle = 0.5 * (low + high);
    if (middle <= low || middle >= high) break;
    (normal_cumulative(middle) < share ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

double log_expected_improvement(double mean, double deviation, double bar) {
  const double z = (mean - bar) / deviation;
  if (z > -10) return std::log(deviation) + std::log(normal_density(z) + z * normal_cumulative(z));
  // Far below the bar the two terms cancel; what is left is density / z² (1 - 3/z² + 15/z⁴).
  const double square = z * z;
  return std::log(deviation) - 0.5 * square - log_of_root - std::log(square) + std::log1p((15 / square - 3) / square);
}

}  // namespace muster::sweep
