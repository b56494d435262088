// A Gaussian process over points of [0, 1]^d: what is likely between and around observations, and how certain that is.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sweep/search/cholesky.hpp"

namespace muster::sweep {

// count × dimensions numbers, point by point.
struct Points {
  std::size_t dimensions = 0;
  std::vector<double> numbers;

  std::size_t count() const { return dimensions == 0 ? 0 : numbers.size() / dimensions; }
  const double* at(std::size_t index) const { return numbers.data() + index * dimensions; }
  void add(std::span<const double> point) { numbers.insert(numbers.end(), point.begin(), point.end()); }
};

// Which dimensions have an order; for the others only equality is known.
using Ordered = std::vector<char>;

// Matérn 5/2 with a length for each dimension.
struct Kernel {
  std::vector<double> inverse_squares;  // 1 / length²
  Ordered ordered;
  double noise = 1e-4;  // the share of an observation's variance that is its own
};

// How values correlate at this squared distance, in lengths.
double correlation(double square);
// The squared distance in one dimension.
inline double squared_distance(bool ordered, double first, double second) {
  const double distance = ordered ? first - second : static_cast<double>(first != second);
  return distance * distance;
}

// The kernel that makes these values most likely, given what is usual for lengths and noise. Values are about 0 ± 1.
Kernel fit_kernel(const Points& points, std::span<const double> values, const Ordered& ordered);

struct Prediction {
  double mean = 0;
  double deviation = 0;  // of the true value: an observation's own noise is not counted
};

class GaussianProcess {
 public:
  // At least one point.
  GaussianProcess(Kernel kernel, Points points, std::span<const double> values);

  std::vector<Prediction> predict(const Points& points) const;
  // Only the means, which take far less time.
  std::vector<double> predict_means(const Points& points) const;

 private:
  // How every known point correlates with each of these: one row for each known point.
  std::vector<double> correlations_with(const Points& points) const;
  std::vector<double> means(const std::vector<double>& rows, std::size_t wanted) const;
  double between(const double* first, const double* second) const;

  Kernel kernel_;
  Points points_;
  Cholesky factor_;
  std::vector<double> weights_;  // the inverse correlations times the deviations from the mean
  double mean_ = 0;
  double variance_ = 1;
};

}  // namespace muster::sweep
