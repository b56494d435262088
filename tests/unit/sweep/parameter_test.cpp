#include "sweep/parameter.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "sweep/search/chance.hpp"
#include "sweep/search/normal_curve.hpp"
#include "sweep/space.hpp"

namespace muster::sweep {
namespace {

// Parameters of every distribution, with bounds by chance.
Parameter drawn_parameter(Chance& chance) {
  Parameter parameter{.path = "p"};
  parameter.distribution = static_cast<Distribution>(chance.below(9));
  const double first = chance.share(), second = chance.share();
  switch (parameter.distribution) {
    case Distribution::constant:
      parameter.values = {Value(true)};
      break;
    case Distribution::values:
    case Distribution::categorical:
      for (std::uint64_t i = 0; i <= chance.below(9); ++i) parameter.values.push_back(static_cast<std::int64_t>(i * i));
      if (chance.below(2) == 0) parameter.values.push_back("word");
      break;
    case Distribution::int_uniform:
      parameter.min = std::floor(first * 100) - 50;
      parameter.max = parameter.min + 1 + std::floor(second * 1e6);
      break;
    case Distribution::uniform_pow2:
      parameter.min = std::exp2(std::floor(first * 10) - 4);
      parameter.max = parameter.min * std::exp2(1 + std::floor(second * 20));
      break;
    case Distribution::uniform:
      parameter.min = first * 100 - 50;
      parameter.max = parameter.min + 1e-3 + second * 100;
      break;
    case Distribution::log_uniform:
    case Distribution::log_normal:
      parameter.min = std::exp(-20 * first);
      parameter.max = parameter.min * std::exp(0.1 + 10 * second);
      break;
    case Distribution::logit_normal:
      parameter.min = 1e-6 + first * 0.4;
      parameter.max = 1 - 1e-6 - second * 0.4;
  }
  parameter.centre = 2 * chance.share() - 1;
  parameter.scale = 0.05 + chance.share();
  return parameter;
}

bool is_within(const Parameter& parameter, const Value& value) {
  if (!parameter.values.empty())
    return std::ranges::any_of(parameter.values, [&](const Value& known) { return same(known, value); });
  return *number_of(value) >= parameter.min && *number_of(value) <= parameter.max;
}

TEST(Parameter, GivesAValueBackFromItsPlaceOnTheUnitInterval) {
  Chance chance(1, 0);
  for (int round = 0; round < 20000; ++round) {
    const Parameter parameter = drawn_parameter(chance);
    const Value value = from_unit(parameter, 2.2 * chance.share() - 1.1);  // beyond both ends, too
    ASSERT_TRUE(is_within(parameter, value));
    const auto unit = to_unit(parameter, value);
    ASSERT_TRUE(unit);
    ASSERT_GE(*unit, -1);
    ASSERT_LE(*unit, 1);
    const Value again = from_unit(parameter, *unit);
    if (count_values(parameter))
      ASSERT_TRUE(same(again, value)) << to_text(again) << " for " << to_text(value);
    else
      ASSERT_NEAR(*number_of(again), *number_of(value), 1e-11 * std::max(1.0, std::abs(*number_of(value))));
  }
}

TEST(Parameter, GivesAPlaceBackFromItsValue) {
  Chance chance(2, 0);
  for (int round = 0; round < 20000; ++round) {
    const Parameter parameter = drawn_parameter(chance);
    const double unit = 2 * chance.share() - 1;
    const double snap = to_unit(parameter, from_unit(parameter, unit)).value();
    const auto count = count_values(parameter);
    ASSERT_NEAR(snap, unit, count ? 1.0 / static_cast<double>(*count) + 1e-9 : 1e-6);
    if (count) {
      ASSERT_EQ(to_unit(parameter, from_unit(parameter, snap)), snap);
    }
  }
}

TEST(Parameter, HasItsBoundsAtTheEndsOfTheInterval) {
  for (const Distribution distribution : {Distribution::uniform, Distribution::int_uniform, Distribution::uniform_pow2,
                                          Distribution::log_uniform, Distribution::log_normal}) {
    const Parameter parameter{.path = "p", .distribution = distribution, .min = 2, .max = 64};
    EXPECT_EQ(number_of(from_unit(parameter, -1)), 2);
    EXPECT_EQ(number_of(from_unit(parameter, 1)), 64);
    EXPECT_FALSE(to_unit(parameter, 1.0));
    EXPECT_FALSE(to_unit(parameter, 65.0));
    EXPECT_FALSE(to_unit(parameter, Value("64")));
  }
}

TEST(Parameter, OfPowersOfTwoHasNoOtherValue) {
  const Parameter parameter{.path = "p", .distribution = Distribution::uniform_pow2, .min = 8, .max = 64};
  EXPECT_EQ(count_values(parameter), 4u);
  std::map<double, int> seen;
  for (int i = 0; i < 400; ++i) ++seen[*number_of(from_unit(parameter, draw_unit(parameter, (i + 0.5) / 400)))];
  EXPECT_EQ(seen, (std::map<double, int>{{8, 100}, {16, 100}, {32, 100}, {64, 100}}));
  EXPECT_FALSE(to_unit(parameter, 24.0));
}

TEST(Parameter, DrawsEveryWholeNumberAsOften) {
  const Parameter parameter{.path = "p", .distribution = Distribution::int_uniform, .min = -1, .max = 3};
  std::map<std::int64_t, int> seen;
  for (int i = 0; i < 500; ++i)
    ++seen[std::get<std::int64_t>(from_unit(parameter, draw_unit(parameter, (i + 0.5) / 500)))];
  EXPECT_EQ(seen, (std::map<std::int64_t, int>{{-1, 100}, {0, 100}, {1, 100}, {2, 100}, {3, 100}}));
}

TEST(Parameter, DrawsNormallyAroundItsCentreAndWithinItsBounds) {
  Parameter parameter{.path = "p", .distribution = Distribution::log_normal, .min = 1e-4, .max = 1};
  parameter.centre = to_unit(parameter, 1e-2).value();
  parameter.scale = 0.25;  // half a power of ten
  Chance chance(3, 0);
  int near = 0;
  double sum = 0;
  for (int i = 0; i < 10000; ++i) {
    const double value = *number_of(from_unit(parameter, draw_unit(parameter, chance.share())));
    ASSERT_TRUE(value >= 1e-4 && value <= 1);
    sum += std::log10(value);
    if (std::abs(std::log10(value) + 2) < 0.5) ++near;
  }
  EXPECT_NEAR(sum / 10000, -2, 0.02);
  EXPECT_NEAR(near / 10000.0, 0.683, 0.02);
}

TEST(Parameter, WithAStepHasItsMultiplesWithoutRoundingErrors) {
  const Parameter parameter{.path = "p", .distribution = Distribution::uniform, .min = 0.1, .max = 0.5, .step = 0.1};
  EXPECT_EQ(count_values(parameter), 5u);
  EXPECT_EQ(to_text(from_unit(parameter, 0)), "0.3");
  for (std::uint64_t i = 0; i < 5; ++i)
    EXPECT_TRUE(same(value_at_index(parameter, i),
                     from_unit(parameter, to_unit(parameter, value_at_index(parameter, i)).value())));
}

TEST(Parameter, OnALogarithmicScaleGivesNumbersWithoutRoundingNoise) {
  const Parameter rate{.path = "rate", .distribution = Distribution::log_uniform, .min = 1e-5, .max = 1e-1};
  for (const double value : {0.002, 3e-4, 0.05, 0.0123}) {
    const auto unit = to_unit(rate, value);
    ASSERT_TRUE(unit);
    EXPECT_EQ(number_of(from_unit(rate, *unit)), value);
  }
}

TEST(Space, CountsAndListsTheProductOfItsValues) {
  Space space;
  space.parameters.push_back(
      {.path = "a", .distribution = Distribution::values, .values = {Value(std::int64_t{1}), Value("x")}});
  space.parameters.push_back({.path = "b", .distribution = Distribution::int_uniform, .min = 3, .max = 5});
  EXPECT_EQ(count_points(space), 6u);
  EXPECT_EQ(grid_settings(space, 0), (Settings{{"a", std::int64_t{1}}, {"b", std::int64_t{3}}}));
  EXPECT_EQ(grid_settings(space, 4), (Settings{{"a", "x"}, {"b", std::int64_t{4}}}));
  space.parameters.push_back({.path = "c"});
  EXPECT_FALSE(count_points(space));
}

TEST(Space, KnowsNoPointOfSettingsThatItDoesNotHold) {
  Space space;
  space.parameters.push_back({.path = "a", .min = 0, .max = 1});
  EXPECT_TRUE(point_of(space, {{"a", 0.5}, {"other", "x"}}));
  EXPECT_FALSE(point_of(space, {{"a", 1.5}}));
  EXPECT_FALSE(point_of(space, {{"b", 0.5}}));
}

TEST(NormalCurve, HasItsKnownQuantiles) {
  EXPECT_NEAR(normal_quantile(0.975), 1.959963984540054, 1e-9);
  EXPECT_NEAR(normal_quantile(0.5), 0, 1e-12);
  EXPECT_NEAR(normal_cumulative(1), 0.8413447460685429, 1e-12);
}

TEST(NormalCurve, ExpectsImprovementWithoutAGapWhereItsFormulaChanges) {
  // At the bar with deviation 1: 1 / √(2π).
  EXPECT_NEAR(log_expected_improvement(0, 1, 0), std::log(0.3989422804014327), 1e-12);
  EXPECT_NEAR(log_expected_improvement(-9.999999, 1, 0), log_expected_improvement(-10.000001, 1, 0), 0.001);
  double last = 1;
  for (double mean = 0; mean > -100; mean -= 0.5) {
    const double now = log_expected_improvement(mean, 1, 0);
    ASSERT_LT(now, last);
    last = now;
  }
}

TEST(FromUnit, GivesNumbersAsPeopleWriteThem) {
  Parameter parameter;
  parameter.distribution = Distribution::log_normal;
  parameter.min = 1e-4;
  parameter.max = 2e-2;
  for (const auto& [number, text] : {std::pair{2e-3, "0.002"}, std::pair{3e-4, "0.0003"}, std::pair{0.0123, "0.0123"}})
    EXPECT_EQ(to_text(from_unit(parameter, to_unit(parameter, number).value())), text);
}

}  // namespace
}  // namespace muster::sweep
