#include "sweep/search/gaussian_process.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "sweep/search/bfgs.hpp"
#include "sweep/search/chance.hpp"

namespace muster::sweep {
namespace {

Matrix positive_definite(std::size_t size, Chance& chance) {
  Matrix root(size), product(size);
  for (double& element : root.elements) element = chance.normal();
  for (std::size_t i = 0; i < size; ++i)
    for (std::size_t j = 0; j < size; ++j) {
      for (std::size_t k = 0; k < size; ++k) product.row(i)[j] += root.row(i)[k] * root.row(j)[k];
      if (i == j) product.row(i)[j] += 0.5;
    }
  return product;
}

TEST(Cholesky, SolvesAndInvertsWhatItFactored) {
  Chance chance(5, 0);
  for (const std::size_t size : {1u, 2u, 7u, 33u}) {
    const Matrix matrix = positive_definite(size, chance);
    const auto factor = Cholesky::of(matrix);
    ASSERT_TRUE(factor);
    std::vector<double> right(size);
    for (double& value : right) value = chance.normal();
    const std::vector<double> solution = factor->solve(right);
    const Matrix inverse = factor->inverse();
    for (std::size_t i = 0; i < size; ++i) {
      double product = 0;
      for (std::size_t k = 0; k < size; ++k) product += matrix.row(i)[k] * solution[k];
      EXPECT_NEAR(product, right[i], 1e-8);
      for (std::size_t j = 0; j < size; ++j) {
        double element = 0;
        for (std::size_t k = 0; k < size; ++k) element += matrix.row(i)[k] * inverse.row(k)[j];
        EXPECT_NEAR(element, i == j ? 1 : 0, 1e-8);
      }
    }
  }
}

TEST(Cholesky, SolvesSeveralRightSidesWithItsLowerFactorAsOneByOne) {
  Chance chance(6, 0);
  constexpr std::size_t size = 9, width = 37;
  const Matrix matrix = positive_definite(size, chance);
  const auto factor = Cholesky::of(matrix);
  std::vector<double> rows(size * width);
  for (double& value : rows) value = chance.normal();
  std::vector<double> solved = rows;
  factor->solve_lower(solved, width);
  // |L⁻¹ b|² = bᵀ A⁻¹ b
  for (std::size_t column = 0; column < width; ++column) {
    std::vector<double> right(size);
    double squares = 0, product = 0;
    for (std::size_t i = 0; i < size; ++i) right[i] = rows[i * width + column];
    const std::vector<double> solution = factor->solve(right);
    for (std::size_t i = 0; i < size; ++i) {
      squares += solved[i * width + column] * solved[i * width + column];
      product += right[i] * solution[i];
    }
    EXPECT_NEAR(squares, product, 1e-8);
  }
}

TEST(Cholesky, HasNoFactorOfAMatrixThatIsNotPositiveDefinite) {
  Matrix matrix(2);
  matrix.elements = {1, 2, 2, 1};
  EXPECT_FALSE(Cholesky::of(matrix));
}

TEST(Ascent, FindsTheTopOfACurvedHill) {
  // Rosenbrock's valley, upside down.
  const Hill hill = [](const std::vector<double>& p) -> std::optional<Height> {
    const double a = 1 - p[0], b = p[1] - p[0] * p[0];
    return Height{-(a * a + 10 * b * b), {2 * a + 40 * b * p[0], -20 * b}};
  };
  const auto top = climb(hill, {-1, 1.5}, {-3, -3}, {3, 3}, 200);
  EXPECT_NEAR(top[0], 1, 0.1);
  EXPECT_NEAR(top[1], 1, 0.2);
}

TEST(Ascent, StaysWithinItsBounds) {
  const Hill hill = [](const std::vector<double>& p) -> std::optional<Height> { return Height{3 * p[0], {3}}; };
  EXPECT_EQ(climb(hill, {0}, {-1}, {0.25}, 20), (std::vector<double>{0.25}));
}

struct Sample {
  Points points;
  std::vector<double> values;
};

template <class Function>
Sample sample(std::size_t dimensions, std::size_t count, Function function, std::uint64_t seed = 1) {
  Chance chance(seed, 0);
  Sample result{{dimensions, {}}, {}};
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<double> point;
    for (std::size_t k = 0; k < dimensions; ++k) point.push_back(chance.share());
    result.points.add(point);
    result.values.push_back(function(point));
  }
  return result;
}

TEST(GaussianProcess, GoesThroughWhatItHasSeenAndIsSureThere) {
  const Sample seen = sample(2, 30, [](const auto& p) { return std::sin(5 * p[0]) + p[1]; });
  const GaussianProcess process(fit_kernel(seen.points, seen.values, {1, 1}), seen.points, seen.values);
  const auto there = process.predict(seen.points);
  for (std::size_t i = 0; i < there.size(); ++i) {
    EXPECT_NEAR(there[i].mean, seen.values[i], 0.02);
    EXPECT_LT(there[i].deviation, 0.05);
  }
  Points far{2, {40, 40}};
  EXPECT_GT(process.predict(far)[0].deviation, 0.3);
}

TEST(GaussianProcess, PredictsWhatItHasNotSeen) {
  const auto function = [](const std::vector<double>& p) { return std::sin(6 * p[0]) * std::cos(3 * p[1]); };
  const Sample seen = sample(2, 60, function), other = sample(2, 200, function, 2);
  const GaussianProcess process(fit_kernel(seen.points, seen.values, {1, 1}), seen.points, seen.values);
  const auto predictions = process.predict(other.points);
  const auto means = process.predict_means(other.points);
  int within = 0;
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    EXPECT_NEAR(predictions[i].mean, other.values[i], 0.3);
    EXPECT_EQ(predictions[i].mean, means[i]);
    if (std::abs(predictions[i].mean - other.values[i]) < 2 * predictions[i].deviation) ++within;
  }
  EXPECT_GT(within, 170);
}

TEST(GaussianProcess, FindsOutWhichDimensionMatters) {
  const Sample seen = sample(2, 40, [](const auto& p) { return 2 * std::sin(8 * p[1]); });
  const Kernel kernel = fit_kernel(seen.points, seen.values, {1, 1});
  EXPECT_GT(kernel.inverse_squares[1], 4 * kernel.inverse_squares[0]);
}

TEST(GaussianProcess, TakesNoiseForNoise) {
  Chance chance(9, 9);
  const Sample noisy = sample(1, 60, [&](const auto& p) { return p[0] + chance.normal(); });
  const Sample clean = sample(1, 60, [](const auto& p) { return std::sin(6 * p[0]); });
  EXPECT_GT(fit_kernel(noisy.points, noisy.values, {1}).noise, 0.05);
  EXPECT_LT(fit_kernel(clean.points, clean.values, {1}).noise, 0.01);
}

TEST(GaussianProcess, TakesEqualPointsWithDifferentValues) {
  Points points{1, {0.5, 0.5, 0.5, 0.1}};
  const std::vector<double> values{1, -1, 0, 0};
  const GaussianProcess process(Kernel{{4}, {1}, 1e-300}, points, values);
  EXPECT_TRUE(std::isfinite(process.predict(points)[0].mean));
}

TEST(GaussianProcess, KnowsOnlyEqualAndDifferentWhereThereIsNoOrder) {
  Points points{1, {0, 0.5, 1}};
  const std::vector<double> values{1, -1, -1};
  const GaussianProcess process(Kernel{{1}, {0}, 1e-6}, points, values);
  const auto means = process.predict_means(Points{1, {0.25, 0.75}});
  EXPECT_EQ(means[0], means[1]);
}

}  // namespace
}  // namespace muster::sweep
