#include <gtest/gtest.h>

#include <cmath>

#include "spec/model_source.hpp"
#include "testing/contains.hpp"

namespace muster::spec {
namespace {

using muster::testing::contains;

std::int64_t count(const ModelConfig& config) { return build_shape(config, ElementType::float32).parameter_count(); }

TEST(TypicalModel, HasAtMostTheAskedParametersAndAtLeastNinetySevenPercent) {
  for (double exponent = 6; exponent <= 13.0001; exponent += 0.01) {
    const std::int64_t asked = std::min(static_cast<std::int64_t>(std::pow(10, exponent)), largest_typical);
    const ModelConfig config = typical_config(asked);
    EXPECT_TRUE(contradictions(config).empty()) << asked;
    EXPECT_LE(count(config), asked);
    EXPECT_GE(static_cast<double>(count(config)), 0.97 * static_cast<double>(asked)) << asked;
    EXPECT_EQ(config.hidden % 128, 0) << asked;
    EXPECT_GT(config.intermediate, config.hidden) << asked;
    EXPECT_LT(config.intermediate, 5 * config.hidden) << asked;
  }
}

TEST(TypicalModel, LooksLikePublicModelsOfItsSize) {
  const ModelConfig seven = typical_config(7'000'000'000);
  EXPECT_EQ(seven.hidden, 4096);
  EXPECT_NEAR(static_cast<double>(seven.layers), 32, 3);
  EXPECT_EQ(seven.kv_heads, seven.heads);
  EXPECT_EQ(seven.vocabulary, 32000);
  const ModelConfig seventy = typical_config(70'000'000'000);
  EXPECT_EQ(seventy.hidden, 8192);
  EXPECT_NEAR(static_cast<double>(seventy.layers), 80, 6);
  EXPECT_EQ(seventy.kv_heads, 8);
  EXPECT_EQ(seventy.vocabulary, 128256);
  const ModelConfig large = typical_config(405'000'000'000);
  EXPECT_EQ(large.hidden, 16384);
  EXPECT_NEAR(static_cast<double>(large.layers), 126, 10);
  EXPECT_EQ(typical_config(1'000'000'000).head_size, 64);
  EXPECT_EQ(typical_config(2'000'000'000).head_size, 128);
}

TEST(TypicalModel, CountsExactlyTheAskedParameters) {
  for (const std::int64_t asked : {std::int64_t{1'000'000}, std::int64_t{134'515'008}, std::int64_t{6'738'415'616},
                                   std::int64_t{70'553'706'497}, std::int64_t{10'000'000'000'000}}) {
    const auto model = model_of_size(asked, std::nullopt);
    ASSERT_TRUE(model);
    EXPECT_EQ(model->shape.parameter_count(), asked);
    EXPECT_TRUE(model->typical);
    EXPECT_EQ(model->dtype, ElementType::float32);
    EXPECT_FALSE(model->notes.empty());
  }
  const auto model = model_of_size(7'000'000'001, ElementType::bfloat16);
  ASSERT_TRUE(model);
  const TensorShape& remainder = model->shape.tensors.front();
  EXPECT_EQ(model->shape.path(TensorId{0}), "model.remainder");
  EXPECT_EQ(remainder.dimensions.rank, 1u);
  EXPECT_EQ(remainder.elements(), model->config.remainder);
  EXPECT_EQ(remainder.type, ElementType::bfloat16);
}

TEST(TypicalModel, RefusesSizesBeyondItsRange) {
  for (const std::int64_t asked : {std::int64_t{0}, std::int64_t{-7}, smallest_typical - 1, largest_typical + 1}) {
    const auto model = model_of_size(asked, std::nullopt);
    ASSERT_FALSE(model);
    EXPECT_TRUE(contains(to_string(model.error()), std::to_string(asked), "from 1M to 10T"));
  }
}

TEST(ParameterCount, ReadsTheUsualWords) {
  EXPECT_EQ(parse_parameter_count("70B").value(), 70'000'000'000);
  EXPECT_EQ(parse_parameter_count("1.5b").value(), 1'500'000'000);
  EXPECT_EQ(parse_parameter_count("0.5B").value(), 500'000'000);
  EXPECT_EQ(parse_parameter_count("135M").value(), 135'000'000);
  EXPECT_EQ(parse_parameter_count("1T").value(), 1'000'000'000'000);
  EXPECT_EQ(parse_parameter_count("70553706496").value(), 70'553'706'496);
  EXPECT_EQ(parse_parameter_count("1.2345678900B").value(), 1'234'567'890) << "zeros at the end change nothing";
}

TEST(ParameterCount, RefusesEverythingElseAndSaysWhatIsAccepted) {
  for (const char* text : {"", "B", "-7B", "7 B", "7K", "7e9", "7BB", "1.5", "1..5B", ".5B", "5.B", "0", "0B", "0x7B",
                           "1.23456789012B", "99999999999T", "99999999999999999999", "seven"}) {
    const auto count = parse_parameter_count(text);
    ASSERT_FALSE(count) << text;
    EXPECT_TRUE(contains(to_string(count.error()), text, "70B, 1.5B, 135M, 1T"));
  }
}

}  // namespace
}  // namespace muster::spec
