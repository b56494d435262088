#include "kernels/activation.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "kernels/pointwise.hpp"
#include "numbers.hpp"

namespace muster::kernels {
namespace {

double logistic(double x) { return 1 / (1 + std::exp(-x)); }
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double gelu(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }

struct Case {
  Activation activation;
  std::function<double(double)> value;
};

// As their names are defined elsewhere.
const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {Activation::gelu, gelu},
      {Activation::gelu_clipped, [](double x) { return std::clamp(gelu(x), -10.0, 10.0); }},
      {Activation::gelu_tanh,
       [](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }},
      {Activation::hardswish, [](double x) { return x * std::clamp(x + 3, 0.0, 6.0) / 6; }},
      {Activation::laplace, [](double x) { return 0.5 * std::erfc(-(x - 0.707107) / (0.282095 * std::sqrt(2.0))); }},
      {Activation::leaky_relu, [](double x) { return x > 0 ? x : 0.01 * x; }},
      {Activation::linear, [](double x) { return x; }},
      {Activation::mish, [](double x) { return x * std::tanh(softplus(x)); }},
      {Activation::quick_gelu, [](double x) { return x * logistic(1.702 * x); }},
      {Activation::relu, [](double x) { return std::max(x, 0.0); }},
      {Activation::relu_squared, [](double x) { return std::max(x, 0.0) * std::max(x, 0.0); }},
      {Activation::relu6, [](double x) { return std::clamp(x, 0.0, 6.0); }},
      {Activation::sigmoid, logistic},
      {Activation::silu, [](double x) { return x * logistic(x); }},
      {Activation::sqrt_softplus, [](double x) { return std::sqrt(softplus(x)); }},
      {Activation::tanh, [](double x) { return std::tanh(x); }},
  };
  return all;
}

// From -30 to 30, finely around zero, and far out; away from where relu and its kin have no slope.
Numbers places(Scalar scalar) {
  std::vector<float> values{-1e4F, -300.0F, -88.5F, 88.5F, 300.0F, 1e4F, 1e-30F, -1e-30F, 0x1p-140F};
  for (int i = -3000; i < 3000; ++i) values.push_back((static_cast<float>(i) + 0.37F) * 0.01F);
  Numbers numbers(scalar, static_cast<std::int64_t>(values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) numbers.set(static_cast<std::int64_t>(i), values[i]);
  return numbers;
}

TEST(Activation, EachIsItsDefinition) {
  ThreadTeam team(2);
  for (const Scalar scalar : {Scalar::float32, Scalar::bfloat16, Scalar::float16}) {
    const Numbers input = places(scalar);
    for (const Case& one : cases()) {
      Numbers output(scalar, input.count());
      activate(team, one.activation, input.data(), scalar, input.count(), output.data());
      for (std::int64_t i = 0; i < input.count(); ++i) {
        const double right = one.value(input[i]);
        if (scalar == Scalar::float16 && std::abs(right) > 65000) continue;
        ASSERT_NEAR(output[i], right,
                    std::abs(right) * (1e-6 + rounding_of(scalar)) + 1e-7 * std::min(1.0, std::abs(input[i])) + 1e-7)
            << static_cast<int>(one.activation) << " of " << input[i];
      }
    }
  }
}

TEST(Activation, EachSlopeIsTheLimitOfDifferences) {
  ThreadTeam team(2);
  const Numbers input = places(Scalar::float32);
  const Numbers gradient = Numbers::drawn(Scalar::float32, input.count(), 4);
  for (const Case& one : cases()) {
    Numbers output(Scalar::float32, input.count());
    activate_gradient(team, one.activation, input.data(), gradient.data(), Scalar::float32, input.count(),
                      output.data());
    for (std::int64_t i = 0; i < input.count(); ++i) {
      const double x = input[i];
      const double step = 1e-5 * std::max(1.0, std::abs(x));
      const double slope = (one.value(x + step) - one.value(x - step)) / (2 * step);
      if (std::abs(x) < step) continue;  // relu has no slope there
      ASSERT_NEAR(output[i], slope * gradient[i],
                  (2e-6 + 2e-6 * std::abs(slope)) * std::max(1.0, std::abs(gradient[i])))
          << static_cast<int>(one.activation) << " at " << x;
    }
  }
}

TEST(Activation, AnElementHasTheSameBitsInAnyPlaceLengthAndVectorSet) {
  const Numbers input = Numbers::drawn(Scalar::float32, 600, 5, 3.0F);
  for (const Case& one : cases()) {
    ThreadTeam portable(1, VectorSet::portable);
    Numbers expected(Scalar::float32, 600);
    activate(portable, one.activation, input.data(), Scalar::float32, 600, expected.data());
    for (const VectorSet set : available_sets()) {
      ThreadTeam team(2, set);
      for (const auto& [first, count] : {std::pair{0, 600}, {1, 599}, {5, 17}, {33, 1}, {250, 300}, {7, 15}}) {
        Numbers some(Scalar::float32, count);
        activate(team, one.activation, input.at(first), Scalar::float32, count, some.data());
        ASSERT_TRUE(some.same_bits(0, expected, first, count)) << static_cast<int>(one.activation) << name(set);
      }
    }
  }
}

TEST(Activation, ANaNStaysOne) {
  ThreadTeam team(1);
  const Numbers input = Numbers::filled(Scalar::float32, 3, std::nanf(""));
  for (const Activation activation : {Activation::silu, Activation::gelu_tanh, Activation::gelu, Activation::sigmoid,
                                      Activation::relu, Activation::tanh}) {
    Numbers output(Scalar::float32, 3);
    activate(team, activation, input.data(), Scalar::float32, 3, output.data());
    EXPECT_TRUE(std::isnan(output[0])) << static_cast<int>(activation);
  }
}

TEST(GatedActivation, MultipliesTheRoundedActivationFromTwoHalvesOfOneMatrix) {
  ThreadTeam team(2);
  constexpr std::int64_t rows = 5, columns = 300, stride = 600;
  for (const Scalar scalar : {Scalar::float32, Scalar::bfloat16}) {
    const Numbers both = Numbers::drawn(scalar, rows * stride, 6);
    Numbers output(scalar, rows * columns);
    gated_activation(team, Activation::silu, {both.data(), both.at(columns), rows, columns, stride}, scalar,
                     output.data());
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      const std::int64_t place = i / columns * stride + i % columns;
      Numbers silu(Scalar::float32, 1), stored(scalar, 1);
      const float gate = static_cast<float>(both[place]);
      activate(team, Activation::silu, &gate, Scalar::float32, 1, silu.data());
      stored.set(0, static_cast<float>(silu[0]));
      stored.set(0, static_cast<float>(stored[0]) * static_cast<float>(both[place + columns]));
      ASSERT_EQ(output[i], stored[0]);
    }
  }
}

TEST(GatedActivation, ItsGradientsAreTheProductRules) {
  ThreadTeam team(2);
  constexpr std::int64_t rows = 3, columns = 270, stride = 540;
  const Numbers both = Numbers::drawn(Scalar::float32, rows * stride, 6);
  const Numbers gradient = Numbers::drawn(Scalar::float32, rows * columns, 7);
  for (const Case& one : cases()) {
    if (one.activation != Activation::silu && one.activation != Activation::gelu_tanh) continue;
    Numbers slopes(Scalar::float32, rows * stride);
    gated_activation_gradient(team, one.activation, {both.data(), both.at(columns), rows, columns, stride},
                              gradient.data(), Scalar::float32, slopes.data(), slopes.at(columns));
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      const std::int64_t place = i / columns * stride + i % columns;
      const double x = both[place], up = both[place + columns];
      const double slope = (one.value(x + 1e-5) - one.value(x - 1e-5)) / 2e-5;
      ASSERT_NEAR(slopes[place], gradient[i] * up * slope, 1e-5);
      ASSERT_NEAR(slopes[place + columns], gradient[i] * one.value(x), 1e-5);
    }
  }
}

TEST(RowOps, AddsAndMayWriteOverItsInput) {
  ThreadTeam team(2);
  for (const Scalar scalar : {Scalar::float32, Scalar::bfloat16, Scalar::float16}) {
    Numbers first = Numbers::drawn(scalar, 5001, 1), expected(scalar, 5001);
    const Numbers second = Numbers::drawn(scalar, 5001, 2);
    for (std::int64_t i = 0; i < 5001; ++i) expected.set(i, static_cast<float>(first[i] + second[i]));
    add(team, first.data(), second.data(), scalar, 5001, first.data());
    EXPECT_TRUE(first == expected);
  }
}

}  // namespace
}  // namespace muster::kernels
