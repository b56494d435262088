// Values of expressions with roots and functions in them, with a bound of their rounding errors.
#pragma once

#include <complex>
#include <optional>

#include "reward/math/expression.hpp"
#include "reward/math/verdict.hpp"

namespace muster::reward::math {

struct Measured {
  std::complex<long double> value;
  long double error = 0;
};

// Every name stands for a fixed number that follows from it and the point: a positive one at points below 4. Absent:
// undefined there, or of several values (a root of a negative number but the square one).
std::optional<Measured> measure(const Expression& expression, int point);
constexpr int measured_points = 8;

// Equal where the errors bridge the difference and are tiny; different where they are nowhere near.
Verdict compare_measured(const Measured& a, const Measured& b);
Measured product(const Measured& a, const Measured& b);

// By values at all points. Those that agree for positive numbers alone are not known to be equal.
Verdict compare_values(const Expression& a, const Expression& b);

}  // namespace muster::reward::math
