#include "runs/run_comparison.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace muster::runs {
namespace {

store::MetricsTable losses(std::int64_t first_step, const std::vector<store::Cell>& cells) {
  store::MetricsTable table;
  table.columns = {{"loss", cells}};
  for (std::size_t i = 0; i < cells.size(); ++i) table.steps.push_back(first_step + static_cast<std::int64_t>(i));
  return table;
}

TEST(CurveComparison, KnowsEqualCurvesBitForBit) {
  EXPECT_TRUE(compare_curves(losses(1, {0.1, std::nan("")}), losses(1, {0.1, std::nan("")})).equal());
  EXPECT_FALSE(compare_curves(losses(1, {0.0}), losses(1, {-0.0})).equal());
  EXPECT_FALSE(compare_curves(losses(1, {}), losses(1, {})).equal());
}

TEST(CurveComparison, NamesTheFirstStepThatDiffers) {
  const auto compared = compare_curves(losses(1, {0.1, 0.2, 0.3, 0.4}), losses(2, {0.2, 0.3000001, 0.5, 0.6}));
  EXPECT_EQ(compared.common, 3u);
  EXPECT_EQ(compared.first_difference, 3);
  EXPECT_NEAR(compared.largest_difference, 0.1, 1e-12);
  EXPECT_FALSE(compared.same_steps);
}

TEST(CurveComparison, IsNotEqualWhereOneGoesFurther) {
  const auto compared = compare_curves(losses(1, {0.1, 0.2}), losses(1, {0.1}));
  EXPECT_FALSE(compared.first_difference);
  EXPECT_FALSE(compared.equal());
}

}  // namespace
}  // namespace muster::runs
