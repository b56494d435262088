#include "kernels/optimizer.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "numbers.hpp"

namespace muster::kernels {
namespace {

// What three steps of both rules and the sum of squares leave behind.
double sum_of_squares(ThreadTeam& team, const Sum& sum, std::int64_t count) {
  std::vector<double> blocks(static_cast<std::size_t>(square_block_count(count)));
  square_blocks(team, sum, count, blocks.data());
  return std::accumulate(blocks.begin(), blocks.end(), 0.0);
}

struct Outcome {
  std::vector<Numbers> arrays;
  std::vector<double> squares;

  bool operator==(const Outcome&) const = default;
};

Outcome run(ThreadTeam& team, std::int64_t count, bool exact) {
  Numbers parameter = Numbers::drawn(Scalar::float32, count, 1), first(Scalar::float32, count), second = first;
  Numbers momentum = first, other = parameter;
  Outcome outcome;
  for (std::int64_t step = 1; step <= 3; ++step) {
    Numbers gradient = Numbers::drawn(Scalar::float32, count, static_cast<unsigned>(step), 0.1F);
    std::vector<std::int64_t> multiples;
    for (std::int64_t i = 0; i < count; ++i) multiples.push_back(exact_term(static_cast<float>(gradient[i])));
    std::int64_t overflow = 0;
    const Sum sum =
        exact ? Sum{.multiples = multiples.data(), .overflow = &overflow} : Sum{.values = gradient.floats()};
    adamw(team, {.rate = 1e-2, .decay = 0.1, .step = step, .gradient_scale = 0.3}, sum, count, parameter.floats(),
          first.floats(), second.floats());
    sgd(team, {.rate = 1e-2, .momentum = 0.9, .decay = 0.1, .first = step == 1}, sum, count, other.floats(),
        momentum.floats());
    outcome.squares.push_back(sum_of_squares(team, sum, count));
  }
  outcome.arrays = {parameter, first, second, momentum, other};
  return outcome;
}

TEST(Optimizer, StepsHaveTheSameBitsOnAnyThreadsAndVectorSet) {
  for (const bool exact : {false, true}) {
    for (const std::int64_t count : {1, 15, 16, 1000, 20'003}) {
      ThreadTeam portable(1, VectorSet::portable);
      const Outcome expected = run(portable, count, exact);
      for (const VectorSet set : available_sets()) {
        for (const int threads : {1, 3}) {
          ThreadTeam team(threads, set);
          EXPECT_TRUE(run(team, count, exact) == expected) << name(set) << ", " << count;
        }
      }
    }
  }
}

TEST(Optimizer, TheSumOfSquaresGoesInBlocksOf256) {
  ThreadTeam team(2);
  const Numbers values = Numbers::drawn(Scalar::float32, 700, 1);
  double expected = 0;
  for (std::int64_t first = 0; first < 700; first += 256) {
    double sums[16] = {};
    for (std::int64_t i = first; i < std::min<std::int64_t>(700, first + 256); ++i)
      sums[i % 16] += values[i] * values[i];
    for (int width = 8; width > 0; width /= 2)
      for (int j = 0; j < width; ++j) sums[j] += sums[j + width];
    expected += sums[0];
  }
  Numbers held = values;
  EXPECT_EQ(sum_of_squares(team, {.values = held.floats()}, 700), expected);
}

}  // namespace
}  // namespace muster::kernels
