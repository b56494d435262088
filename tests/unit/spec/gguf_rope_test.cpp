#include "spec/model/gguf_rope.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "testing/contains.hpp"

namespace muster::spec {
namespace {

using testing::contains;

ModelConfig llama3() {
  ModelConfig config;
  config.head_size = 128;
  config.rope.theta = 500000;
  return config;
}

// The factors that llama.cpp's converter writes for Llama 3.1 and later, by its own words.
std::vector<float> llama3_factors(double factor) {
  std::vector<float> factors;
  for (int i = 0; i < 64; ++i) {
    const double frequency = 1.0 / std::pow(500000.0, 2.0 * i / 128);
    const double length = 2 * std::numbers::pi / frequency;
    if (length < 8192.0 / 4) {
      factors.push_back(1);
    } else if (length > 8192.0) {
      factors.push_back(static_cast<float>(factor));
    } else {
      const double smooth = (8192.0 / length - 1) / 3;
      factors.push_back(static_cast<float>(1 / ((1 - smooth) / factor + smooth)));
    }
  }
  return factors;
}

TEST(GgufRope, FindsLlama3sScalingInItsFactors) {
  for (const double factor : {8.0, 32.0}) {
    ModelConfig config = llama3();
    ASSERT_TRUE(take_rope_factors(llama3_factors(factor), "m.gguf", config));
    EXPECT_EQ(config.rope.kind, RopeKind::llama3);
    EXPECT_EQ(config.rope.factor, factor);
    EXPECT_EQ(config.rope.original_positions, 8192);
    EXPECT_EQ(config.rope.low_frequency_factor, 1);
    EXPECT_EQ(config.rope.high_frequency_factor, 4);
  }
}

TEST(GgufRope, LeavesARopeWithoutFactorsAsItIs) {
  ModelConfig config = llama3();
  ASSERT_TRUE(take_rope_factors({}, "m.gguf", config));
  ASSERT_TRUE(take_rope_factors(std::vector<float>(64, 1.0F), "m.gguf", config));
  EXPECT_EQ(config, llama3());
}

TEST(GgufRope, RefusesFactorsOfAnotherKind) {
  ModelConfig config = llama3();
  auto factors = llama3_factors(8);
  factors[40] *= 1.01F;
  auto taken = take_rope_factors(factors, "m.gguf", config);
  ASSERT_FALSE(taken);
  EXPECT_TRUE(contains(taken.error().what, "m.gguf: rope_freqs.weight", "from 1 to 8", "not those of Llama 3"));
  taken = take_rope_factors({2, 2}, "m.gguf", config);
  ASSERT_FALSE(taken);
  EXPECT_TRUE(contains(taken.error().what, "2 factors for heads of 128"));
  factors = llama3_factors(8);
  factors[3] = std::nanf("");
  EXPECT_FALSE(take_rope_factors(factors, "m.gguf", config));
}

}  // namespace
}  // namespace muster::spec
