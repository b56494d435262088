#include "sweep/search/covariance.hpp"

#include <cmath>
#include <numeric>

namespace muster::sweep {
namespace {

// As if this many values of variance 1 had been seen as well: few values must not look too certain.
constexpr double prior_values = 2;

}  // namespace

std::optional<Covariance> explain(Matrix correlations, std::span<const double> values) {
  const std::size_t count = values.size();
  auto factor = Cholesky::of(std::move(correlations));
  if (!factor) return std::nullopt;
  const std::vector<double> ones = factor->solve(std::vector<double>(count, 1.0));
  const double mean = std::inner_product(values.begin(), values.end(), ones.begin(), 0.0) /
                      std::accumulate(ones.begin(), ones.end(), 0.0);
  std::vector<double> rest(values.begin(), values.end());
  for (double& value : rest) value -= mean;
  std::vector<double> weights = factor->solve(rest);
  const double squares = std::inner_product(rest.begin(), rest.end(), weights.begin(), 0.0);
  const double total = static_cast<double>(count) + prior_values;
  const double variance = (squares + prior_values) / total;
  const double likelihood = -0.5 * (total * std::log(variance) + factor->log_determinant());
  return Covariance{std::move(*factor), std::move(weights), mean, variance, likelihood};
}

}  // namespace muster::sweep
