#include "kernels/scalar.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/pointwise.hpp"
#include "numbers.hpp"

namespace muster::kernels {
namespace {

// float16's value from its parts.
double half_value(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return fraction != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

TEST(Scalar, EveryFloat16IsWidenedToItsValueAndComesBack) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const Float16 value{static_cast<std::uint16_t>(bits)};
    const double expected = half_value(value.bits);
    Float16 back;
    narrow(widen(value), back);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(widen(value)) && std::isnan(widen(back)));
    } else {
      ASSERT_EQ(widen(value), expected);
      ASSERT_EQ(back.bits, value.bits);
    }
  }
}

TEST(Scalar, RoundsToTheNearestAndToEvenOnTies) {
  const auto half = [](float value) {
    Float16 out;
    narrow(value, out);
    return out.bits;
  };
  const auto brain = [](float value) {
    BFloat16 out;
    narrow(value, out);
    return out.bits;
  };
  // Halfway between every pair of neighbours, and one float32 to either side of it.
  for (unsigned bits = 0; bits < 0x7BFF; ++bits) {
    const auto low = static_cast<std::uint16_t>(bits);
    const auto high = static_cast<std::uint16_t>(bits + 1);
    const auto middle = static_cast<float>((half_value(low) + half_value(high)) / 2);
    ASSERT_EQ(half(middle), bits % 2 == 0 ? low : high);
    ASSERT_EQ(half(std::nextafter(middle, 0.0F)), low);
    ASSERT_EQ(half(std::nextafter(middle, 1e9F)), high);
  }
  EXPECT_EQ(half(65519.996F), 0x7BFF);
  EXPECT_EQ(half(65520.0F), 0x7C00);
  EXPECT_EQ(brain(1.00390625F), 0x3F80);  // 1 + 2^-8: halfway, to even
  EXPECT_EQ(brain(std::nextafter(1.00390625F, 2.0F)), 0x3F81);
  EXPECT_EQ(brain(1.01171875F), 0x3F82);
  EXPECT_EQ(brain(3.4e38F), 0x7F80);
  EXPECT_TRUE(std::isnan(widen(BFloat16{brain(std::numeric_limits<float>::quiet_NaN())})));
}

TEST(Scalar, EveryVectorSetConvertsAsTheDefinitionDoes) {
  Numbers values(Scalar::float32, 70001);
  std::mt19937 chance(3);
  for (std::int64_t i = 0; i < values.count(); ++i) {
    const auto bits = static_cast<std::uint32_t>(chance());
    std::memcpy(values.at(i), &bits, 4);
    if (std::isnan(values[i])) values.set(i, 0x1p-149F);
  }
  for (const VectorSet set : available_sets()) {
    ThreadTeam team(1, set);
    for (const Scalar scalar : {Scalar::bfloat16, Scalar::float16}) {
      Numbers seen(scalar, values.count()), expected(scalar, values.count()), back(Scalar::float32, values.count());
      convert(team, values.data(), Scalar::float32, values.count(), seen.data(), scalar);
      for (std::int64_t i = 0; i < values.count(); ++i) expected.set(i, static_cast<float>(values[i]));
      EXPECT_TRUE(seen == expected) << name(set);
      convert(team, seen.data(), scalar, values.count(), back.data(), Scalar::float32);
      for (std::int64_t i = 0; i < values.count(); ++i) ASSERT_EQ(back[i], seen[i]);
    }
  }
}

}  // namespace
}  // namespace muster::kernels
