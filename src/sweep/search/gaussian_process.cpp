#include "sweep/search/gaussian_process.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "sweep/search/covariance.hpp"

namespace muster::sweep {

double correlation(double square) {
  const double radius = std::sqrt(5 * square);
  return (1 + radius + radius * radius / 3) * std::exp(-radius);
}

double GaussianProcess::between(const double* first, const double* second) const {
  double square = 0;
  for (std::size_t i = 0; i < kernel_.ordered.size(); ++i)
    square += squared_distance(kernel_.ordered[i] != 0, first[i], second[i]) * kernel_.inverse_squares[i];
  return correlation(square);
}

GaussianProcess::GaussianProcess(Kernel kernel, Points points, std::span<const double> values)
    : kernel_(std::move(kernel)), points_(std::move(points)), factor_(*Cholesky::of(Matrix(0))) {
  const std::size_t count = points_.count();
  Matrix correlations(count);
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t j = i + 1; j < count; ++j) correlations.row(i)[j] = between(points_.at(i), points_.at(j));
  // Points too close to be distinguished make the correlations singular; some more noise always helps.
  for (; kernel_.noise < 1e6; kernel_.noise = std::max(4 * kernel_.noise, 1e-12)) {
    for (std::size_t i = 0; i < count; ++i) correlations.row(i)[i] = 1 + kernel_.noise;
    auto found = explain(correlations, values);
    if (!found) continue;
    factor_ = std::move(found->factor);
    weights_ = std::move(found->weights);
    mean_ = found->mean;
    variance_ = found->variance;
    return;
  }
  throw std::logic_error("a process over values that are not numbers");
}

std::vector<double> GaussianProcess::correlations_with(const Points& points) const {
  const std::size_t wanted = points.count();
  std::vector<double> rows(points_.count() * wanted);
  for (std::size_t i = 0; i < points_.count(); ++i)
    for (std::size_t j = 0; j < wanted; ++j) rows[i * wanted + j] = between(points_.at(i), points.at(j));
  return rows;
}

std::vector<double> GaussianProcess::means(const std::vector<double>& rows, std::size_t wanted) const {
  std::vector<double> means(wanted, mean_);
  for (std::size_t i = 0; i < points_.count(); ++i)
    for (std::size_t j = 0; j < wanted; ++j) means[j] += weights_[i] * rows[i * wanted + j];
  return means;
}

std::vector<double> GaussianProcess::predict_means(const Points& points) const {
  return means(correlations_with(points), points.count());
}

std::vector<Prediction> GaussianProcess::predict(const Points& points) const {
  const std::size_t wanted = points.count();
  std::vector<double> rows = correlations_with(points);
  const std::vector<double> expected = means(rows, wanted);
  factor_.solve_lower(rows, wanted);
  std::vector<double> explained(wanted);
  for (std::size_t i = 0; i < points_.count(); ++i)
    for (std::size_t j = 0; j < wanted; ++j) explained[j] += rows[i * wanted + j] * rows[i * wanted + j];
  std::vector<Prediction> predictions(wanted);
  for (std::size_t j = 0; j < wanted; ++j)
    predictions[j] = {expected[j], std::sqrt(variance_ * std::max(1 - explained[j], 1e-12))};
  return predictions;
}

}  // namespace muster::sweep
