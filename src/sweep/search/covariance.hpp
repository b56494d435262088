// Values whose correlations are known: their common mean, the variance that suits them best, and how likely they are.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "sweep/search/cholesky.hpp"

namespace muster::sweep {

struct Covariance {
  Cholesky factor;              // of the correlations
  std::vector<double> weights;  // their inverse times (values - mean)
  double mean = 0;
  double variance = 1;
  double log_likelihood = 0;  // with mean and variance at their best, up to a constant
};

// correlations: the upper triangle, noise on its diagonal. Nothing if they are indistinguishable from singular ones.
std::optional<Covariance> explain(Matrix correlations, std::span<const double> values);

}  // namespace muster::sweep
