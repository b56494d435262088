#include "checkpoint/number_conversion.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace muster::checkpoint {
namespace {

using spec::ElementType;

template <class To, class From>
std::vector<To> converted(ElementType from, const std::vector<From>& in, ElementType to) {
  std::vector<To> out(in.size());
  convert_numbers(from, std::as_bytes(std::span(in)), to, std::as_writable_bytes(std::span(out)));
  return out;
}

std::vector<std::uint16_t> every_pattern() {
  std::vector<std::uint16_t> patterns(65536);
  for (std::size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<std::uint16_t>(i);
  return patterns;
}

// What a half is by its definition.
double half_value(std::uint16_t half) {
  const int exponent = half >> 10 & 31, fraction = half & 1023;
  const double sign = (half & 0x8000) != 0 ? -1.0 : 1.0;
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

bool is_nan_pattern(std::uint16_t half) { return (half & 0x7FFF) > 0x7C00; }

TEST(NumberConversion, GivesEveryHalfItsValue) {
  const auto patterns = every_pattern();
  const auto floats = converted<float>(ElementType::float16, patterns, ElementType::float32);
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    if (is_nan_pattern(patterns[i])) {
      EXPECT_TRUE(std::isnan(floats[i])) << i;
    } else if ((patterns[i] & 0x7FFF) == 0x7C00) {
      EXPECT_TRUE(std::isinf(floats[i])) << i;
    } else {
      EXPECT_EQ(static_cast<double>(floats[i]), half_value(patterns[i])) << i;
      EXPECT_EQ(std::signbit(floats[i]), patterns[i] >= 0x8000) << i;
    }
  }
}

TEST(NumberConversion, BringsEveryHalfAndBfloatBackFromWiderTypes) {
  const auto patterns = every_pattern();
  for (const ElementType narrow : {ElementType::float16, ElementType::bfloat16}) {
    const auto floats = converted<float>(narrow, patterns, ElementType::float32);
    const auto doubles = converted<double>(narrow, patterns, ElementType::float64);
    const auto back = converted<std::uint16_t>(ElementType::float32, floats, narrow);
    const auto also = converted<std::uint16_t>(ElementType::float64, doubles, narrow);
    for (std::size_t i = 0; i < patterns.size(); ++i) {
      if (std::isnan(floats[i])) continue;
      EXPECT_EQ(back[i], patterns[i]);
      EXPECT_EQ(also[i], patterns[i]);
    }
  }
}

// The two neighbours of a number among the halves are next to each other; the nearer one is right, the even one of two.
TEST(NumberConversion, RoundsToTheNearestHalfTiesToEven) {
  std::mt19937 random(7);
  std::vector<float> floats;
  for (int i = 0; i < 200'000; ++i) {
    const float number = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::abs(number) < 65520.0F) floats.push_back(number);
  }
  for (std::uint16_t half = 0; half < 0x7BFF; ++half)  // every tie
    floats.push_back(static_cast<float>((half_value(half) + half_value(static_cast<std::uint16_t>(half + 1))) / 2));
  const auto halves = converted<std::uint16_t>(ElementType::float32, floats, ElementType::float16);
  for (std::size_t i = 0; i < floats.size(); ++i) {
    const auto magnitude = static_cast<std::uint16_t>(halves[i] & 0x7FFF);
    const double wanted = std::abs(static_cast<double>(floats[i]));
    const double error = std::abs(half_value(magnitude) - wanted);
    ASSERT_LT(magnitude, 0x7C00);
    for (const int step : {-1, 1}) {
      if (magnitude + step < 0 || magnitude + step > 0x7BFF) continue;
      const double other = std::abs(half_value(static_cast<std::uint16_t>(magnitude + step)) - wanted);
      ASSERT_TRUE(error < other || (error == other && magnitude % 2 == 0)) << floats[i];
    }
  }
}

TEST(NumberConversion, TurnsWhatIsTooLargeIntoInfinityAndKeepsNaN) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> floats{65504.0F,
                                  65519.996F,
                                  65520.0F,
                                  1e30F,
                                  infinity,
                                  -infinity,
                                  std::numeric_limits<float>::quiet_NaN(),
                                  3.4e38F,
                                  std::numeric_limits<float>::max()};
  EXPECT_EQ(converted<std::uint16_t>(ElementType::float32, floats, ElementType::float16),
            (std::vector<std::uint16_t>{0x7BFF, 0x7BFF, 0x7C00, 0x7C00, 0x7C00, 0xFC00, 0x7E00, 0x7C00, 0x7C00}));
  EXPECT_EQ(converted<std::uint16_t>(ElementType::float32, floats, ElementType::bfloat16),
            (std::vector<std::uint16_t>{0x4780, 0x4780, 0x4780, 0x714A, 0x7F80, 0xFF80, 0x7FC0, 0x7F80, 0x7F80}));
}

TEST(NumberConversion, RoundsTiesOfBfloatToEven) {
  const std::vector<std::uint32_t> bits{0x3F808000, 0x3F818000, 0x3F808001, 0x3F807FFF};
  std::vector<float> floats(bits.size());
  std::memcpy(floats.data(), bits.data(), bits.size() * 4);
  EXPECT_EQ(converted<std::uint16_t>(ElementType::float32, floats, ElementType::bfloat16),
            (std::vector<std::uint16_t>{0x3F80, 0x3F82, 0x3F81, 0x3F80}));
}

}  // namespace
}  // namespace muster::checkpoint
