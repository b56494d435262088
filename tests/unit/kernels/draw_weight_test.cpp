#include "kernels/draw_weight.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

#include "kernels/logits.hpp"
#include "numbers.hpp"

namespace muster::kernels {
namespace {

TEST(DrawWeight, IsTwoToTheFortyTimesThePowerToTheNearestWholeNumber) {
  std::mt19937_64 generator(1);
  std::uniform_real_distribution<double> below(-32, 0);
  for (int i = 0; i < 200'000; ++i) {
    const double x = below(generator);
    const long double exact = 0x1p40L * std::exp(static_cast<long double>(x));
    ASSERT_LE(std::abs(static_cast<long double>(draw_weight(x)) - exact), 0.5L + exact * 0x1p-51L) << x;
  }
}

TEST(DrawWeight, IsExactAtItsEnds) {
  EXPECT_EQ(draw_weight(0.0), std::uint64_t{1} << 40);
  EXPECT_EQ(draw_weight(-0.0), std::uint64_t{1} << 40);
  EXPECT_EQ(draw_weight(-28.4), 1u);
  EXPECT_EQ(draw_weight(-28.5), 0u);
  EXPECT_EQ(draw_weight(-std::numeric_limits<double>::infinity()), 0u);
  EXPECT_EQ(draw_weight(std::numeric_limits<double>::quiet_NaN()), 0u);
}

TEST(DrawWeight, IsTheSameInEveryVectorSet) {
  std::mt19937_64 generator(2);
  std::uniform_real_distribution<float> drawn(-60, 20);
  std::vector<float> logits(10'007);
  for (float& logit : logits) logit = drawn(generator);
  logits[3] = std::numeric_limits<float>::quiet_NaN();
  logits[4] = -std::numeric_limits<float>::infinity();
  const auto columns = static_cast<std::int64_t>(logits.size());
  for (const VectorSet set : available_sets()) {
    const ThreadTeam team(1, set);
    std::vector<std::uint64_t> weights(logits.size());
    draw_weights(team, logits.data(), columns, 20.0F, 0.7, weights.data());
    for (std::size_t i = 0; i < logits.size(); ++i)
      ASSERT_EQ(weights[i], draw_weight(draw_exponent(logits[i], 20.0F, 0.7))) << i;
  }
}

}  // namespace
}  // namespace muster::kernels
