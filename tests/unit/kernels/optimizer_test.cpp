#include "kernels/optimizer.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "numbers.hpp"

namespace muster::kernels {
namespace {

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

enum class Kind { plain, exact, narrow };  // narrow: all of it in bfloat16

// What three steps of both rules and the sum of squares leave behind.
Outcome run(ThreadTeam& team, std::int64_t count, Kind kind) {
  const Scalar state = kind == Kind::narrow ? Scalar::bfloat16 : Scalar::float32;
  Numbers parameter = Numbers::drawn(state, count, 1), first(state, count), second = first;
  Numbers momentum = first, other = parameter;
  Outcome outcome;
  for (std::int64_t step = 1; step <= 3; ++step) {
    Numbers gradient = Numbers::drawn(state, count, static_cast<unsigned>(step), 0.1F);
    std::vector<std::int64_t> multiples;
    for (std::int64_t i = 0; i < count; ++i) multiples.push_back(exact_term(static_cast<float>(gradient[i])));
    std::int64_t overflow = 0;
    const Sum sum = kind == Kind::exact ? Sum{.multiples = multiples.data(), .overflow = &overflow} : gradient.sum();
    adamw(team, {.rate = 1e-2, .decay = 0.1, .step = step, .gradient_scale = 0.3}, sum, count, state, parameter.data(),
          first.data(), second.data());
    sgd(team, {.rate = 1e-2, .momentum = 0.9, .decay = 0.1, .first = step == 1}, sum, count, state, other.data(),
        momentum.data());
    outcome.squares.push_back(sum_of_squares(team, sum, count));
  }
  outcome.arrays = {parameter, first, second, momentum, other};
  return outcome;
}

TEST(Optimizer, StepsHaveTheSameBitsOnAnyThreadsAndVectorSet) {
  for (const Kind kind : {Kind::plain, Kind::exact, Kind::narrow}) {
    for (const std::int64_t count : {1, 15, 16, 1000, 20'003}) {
      ThreadTeam portable(1, VectorSet::portable);
      const Outcome expected = run(portable, count, kind);
      for (const VectorSet set : available_sets()) {
        for (const int threads : {1, 3}) {
          ThreadTeam team(threads, set);
          EXPECT_TRUE(run(team, count, kind) == expected) << name(set) << ", " << count;
        }
      }
    }
  }
}

TEST(Optimizer, AStepInBfloat16IsTheFloat32StepOfTheSameNumbersRoundedOnce) {
  ThreadTeam team(2);
  constexpr std::int64_t count = 3001;
  std::vector<Numbers> narrow, wide;
  for (unsigned seed = 1; seed <= 5; ++seed) narrow.push_back(Numbers::drawn(Scalar::bfloat16, count, seed));
  for (std::int64_t i = 0; i < count; ++i) narrow[2].set(i, static_cast<float>(std::abs(narrow[2][i])));
  for (const Numbers& numbers : narrow) wide.push_back(numbers.as(Scalar::float32));
  const auto step_adamw = [&](std::vector<Numbers>& numbers) {
    adamw(team, {.rate = 1e-2, .decay = 0.1, .step = 4, .gradient_scale = 0.3}, numbers[3].sum(), count,
          numbers[0].scalar(), numbers[0].data(), numbers[1].data(), numbers[2].data());
  };
  const auto step_sgd = [&](std::vector<Numbers>& numbers) {
    sgd(team, {.rate = 1e-2, .momentum = 0.9, .decay = 0.1}, numbers[1].sum(), count, numbers[3].scalar(),
        numbers[3].data(), numbers[4].data());
  };
  step_adamw(narrow), step_adamw(wide);
  wide[1] = wide[1].as(Scalar::bfloat16).as(Scalar::float32);  // the other rule's gradient
  step_sgd(narrow), step_sgd(wide);
  for (std::size_t i = 0; i < narrow.size(); ++i) EXPECT_TRUE(narrow[i] == wide[i].as(Scalar::bfloat16)) << i;
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
  EXPECT_EQ(sum_of_squares(team, held.sum(), 700), expected);
  Numbers narrow = values.as(Scalar::bfloat16), wide = narrow.as(Scalar::float32);
  EXPECT_EQ(sum_of_squares(team, narrow.sum(), 700), sum_of_squares(team, wide.sum(), 700));
}

}  // namespace
}  // namespace muster::kernels
