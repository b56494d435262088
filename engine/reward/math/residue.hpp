// Exact comparison of rational numbers and rational functions: their values modulo large primes are equal only if they
// are.
#pragma once

#include <optional>

#include "reward/math/expression.hpp"

namespace muster::reward::math {

// Whether it has no roots and functions in it, so that residues are all there is to know.
bool is_rational(const Expression& expression);

// For two rational ones; absent where a denominator of both is zero wherever they were tried.
std::optional<bool> equal_residues(const Expression& a, const Expression& b);

}  // namespace muster::reward::math
