#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "sweep/search/bfgs.hpp"
#include "sweep/search/covariance.hpp"
#include "sweep/search/gaussian_process.hpp"
#include "sweep/search/subsample.hpp"

namespace muster::sweep {
namespace {

constexpr double least_length = 0.02, most_length = 30, least_noise = 1e-7, most_noise = 1;
constexpr int looks = 24;
constexpr std::size_t most_points = 80;  // more say little more about lengths, and take much longer

// The prior: a normal curve over each logarithm. In more dimensions points are farther apart, and so is all that
// matters.
struct Usual {
  double length, length_deviation, noise, noise_deviation;
};

Usual usual_for(std::size_t dimensions) {
  return {std::log(0.5) + 0.5 * std::log(static_cast<double>(dimensions)), 1.0, std::log(1e-4), 2.5};
}

// How likely a kernel is, as a hill over the logarithms of its lengths and, last, of its noise.
class Likelihood {
 public:
  Likelihood(const Points& points, std::span<const double> values, const Ordered& ordered)
      : dimensions_(points.dimensions), values_(values), usual_(usual_for(dimensions_)) {
    for (std::size_t i = 0; i < points.count(); ++i)
      for (std::size_t j = i + 1; j < points.count(); ++j)
        for (std::size_t k = 0; k < dimensions_; ++k)
          squares_.push_back(squared_distance(ordered[k] != 0, points.at(i)[k], points.at(j)[k]));
  }

  std::vector<double> usual_place() const {
    std::vector<double> place(dimensions_, usual_.length);
    place.push_back(usual_.noise);
    return place;
  }

  std::optional<Height> operator()(const std::vector<double>& place) const {
    std::vector<double> inverse_squares;
    for (std::size_t k = 0; k < dimensions_; ++k) inverse_squares.push_back(std::exp(-2 * place[k]));
    const std::vector<double> distances = weighed(inverse_squares);
    const double noise = std::exp(place.back());
    const auto found = explain(correlations(distances, noise), values_);
    if (!found) return std::nullopt;
    Height height{found->log_likelihood, slope(*found, distances, inverse_squares, noise)};
    for (std::size_t k = 0; k <= dimensions_; ++k) {
      const bool is_noise = k == dimensions_;
      const double deviation = is_noise ? usual_.noise_deviation : usual_.length_deviation;
      const double distance = (place[k] - (is_noise ? usual_.noise : usual_.length)) / deviation;
      height.value -= 0.5 * distance * distance;
      height.slope[k] -= distance / deviation;
    }
    return height;
  }

 private:
  // The squared distance of every pair, in lengths.
  std::vector<double> weighed(const std::vector<double>& inverse_squares) const {
    std::vector<double> distances(squares_.size() / dimensions_);
    for (std::size_t pair = 0; pair < distances.size(); ++pair)
      for (std::size_t k = 0; k < dimensions_; ++k)
        distances[pair] += squares_[pair * dimensions_ + k] * inverse_squares[k];
    return distances;
  }

  Matrix correlations(const std::vector<double>& distances, double noise) const {
    Matrix upper(values_.size());
    std::size_t pair = 0;
    for (std::size_t i = 0; i < upper.size; ++i) {
      upper.row(i)[i] = 1 + noise;
      for (std::size_t j = i + 1; j < upper.size; ++j) upper.row(i)[j] = correlation(distances[pair++]);
    }
    return upper;
  }

  // Half the trace of (weights weightsᵀ / variance - inverse) times the correlations' derivative by each logarithm.
  std::vector<double> slope(const Covariance& found, const std::vector<double>& distances,
                            const std::vector<double>& inverse_squares, double noise) const {
    const Matrix inverse = found.factor.inverse();
    std::vector<double> slope(dimensions_ + 1);
    std::size_t pair = 0;
    for (std::size_t i = 0; i < inverse.size; ++i) {
      slope.back() += 0.5 * noise * (found.weights[i] * found.weights[i] / found.variance - inverse.row(i)[i]);
      for (std::size_t j = i + 1; j < inverse.size; ++j, ++pair) {
        const double pull = found.weights[i] * found.weights[j] / found.variance - inverse.row(i)[j];
        const double radius = std::sqrt(5 * distances[pair]);
        const double common = pull * (5.0 / 3) * (1 + radius) * std::exp(-radius);
        for (std::size_t k = 0; k < dimensions_; ++k)
          slope[k] += common * squares_[pair * dimensions_ + k] * inverse_squares[k];
      }
    }
    return slope;
  }

  std::size_t dimensions_;
  std::span<const double> values_;
  Usual usual_;
  std::vector<double> squares_;  // of every pair of points, dimension by dimension
};

struct Chosen {
  Points points;
  std::vector<double> values;
};

Chosen choose(const Points& points, std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
  Chosen chosen{{points.dimensions, {}}, {}};
  for (std::size_t i = 0; i < std::min(most_points, order.size()); ++i) {
    const std::size_t index = order[kept_place(i, order.size(), most_points)];
    chosen.points.add({points.at(index), points.dimensions});
    chosen.values.push_back(values[index]);
  }
  return chosen;
}

}  // namespace

Kernel fit_kernel(const Points& points, std::span<const double> values, const Ordered& ordered) {
  const Chosen chosen = choose(points, values);
  const Likelihood likelihood(chosen.points, chosen.values, ordered);
  std::vector<double> low(points.dimensions, std::log(least_length)), high(points.dimensions, std::log(most_length));
  low.push_back(std::log(least_noise));
  high.push_back(std::log(most_noise));
  const auto place = climb(std::cref(likelihood), likelihood.usual_place(), low, high, looks);
  Kernel kernel{{}, ordered, std::exp(place.back())};
  for (std::size_t k = 0; k < points.dimensions; ++k) kernel.inverse_squares.push_back(std::exp(-2 * place[k]));
  return kernel;
}

}  // namespace muster::sweep
