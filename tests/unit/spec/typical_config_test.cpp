#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "system/files.hpp"
#include "spec/model/model_source.hpp"
#include "spec/model/published_models.hpp"
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
    EXPECT_EQ(config.hidden % 64, 0) << asked;
    EXPECT_GT(config.intermediate, config.hidden) << asked;
    EXPECT_LT(config.intermediate, 8 * config.hidden) << asked;
  }
}

TEST(TypicalModel, LooksLikeThePublishedModelOfItsSize) {
  struct Expected {
    std::int64_t parameters, hidden, layers, heads, kv_heads, vocabulary;
    bool tied;
  };
  for (const Expected& expected : {Expected{500'000'000, 896, 24, 14, 2, 151936, true},       // Qwen2.5 0.5B
                                   Expected{1'500'000'000, 1536, 28, 12, 2, 151936, true},    // Qwen2.5 1.5B
                                   Expected{3'000'000'000, 3072, 28, 24, 8, 128256, true},    // Llama 3.2 3B
                                   Expected{7'000'000'000, 3584, 28, 28, 4, 152064, false},   // Qwen2.5 7B
                                   Expected{8'000'000'000, 4096, 32, 32, 8, 128256, false},   // Llama 3.1 8B
                                   Expected{13'000'000'000, 5120, 40, 40, 40, 32000, false},  // Llama 2 13B
                                   Expected{32'000'000'000, 5120, 64, 40, 8, 152064, false},  // Qwen2.5 32B
                                   Expected{70'000'000'000, 8192, 80, 64, 8, 128256, false},  // Llama 3.1 70B
                                   Expected{405'000'000'000, 16384, 126, 128, 8, 128256, false}}) {
    const ModelConfig config = typical_config(expected.parameters);
    EXPECT_EQ(config.hidden, expected.hidden) << expected.parameters;
    EXPECT_NEAR(static_cast<double>(config.layers), static_cast<double>(expected.layers), 3) << expected.parameters;
    EXPECT_EQ(config.heads, expected.heads) << expected.parameters;
    EXPECT_EQ(config.kv_heads, expected.kv_heads) << expected.parameters;
    EXPECT_EQ(config.vocabulary, expected.vocabulary) << expected.parameters;
    EXPECT_EQ(config.tied, expected.tied) << expected.parameters;
  }
}

TEST(TypicalModel, OfThePublishedSizeIsThePublishedModel) {
  const std::filesystem::path models = std::filesystem::path(MUSTER_FIXTURES) / "models";
  const std::map<std::string_view, std::string> known{
      {"SmolLM2 135M", "SmolLM2-135M"},   {"Qwen2.5 0.5B", "Qwen2-0.5B"},     {"Llama 3.2 1B", "Llama-3.2-1B"},
      {"Qwen2.5 1.5B", "Qwen2-1.5B"},     {"Qwen2.5 7B", "Qwen2.5-7B"},       {"Llama 3.1 8B", "Llama-3.1-8B"},
      {"Llama 3.1 70B", "Llama-3.1-70B"}, {"Llama 3.1 405B", "Llama-3.1-405B"}};
  std::size_t compared = 0;
  for (const PublishedModel& model : published_models()) {
    EXPECT_EQ(nearest_published(model.parameters).name, model.name);
    const auto found = known.find(model.name);
    if (found == known.end()) continue;
    ++compared;
    const std::filesystem::path file = models / found->second / "config.json";
    const ModelConfig published = parse_model_config(*read_file(file), file.string()).value();
    EXPECT_EQ(model.parameters, count(published)) << model.name;
    const ModelConfig typical = typical_config(model.parameters);
    EXPECT_EQ(typical.hidden, published.hidden) << model.name;
    EXPECT_EQ(typical.layers, published.layers) << model.name;
    EXPECT_EQ(typical.heads, published.heads) << model.name;
    EXPECT_EQ(typical.kv_heads, published.kv_heads) << model.name;
    EXPECT_EQ(typical.head_size, published.head_size) << model.name;
    EXPECT_EQ(typical.vocabulary, published.vocabulary) << model.name;
    EXPECT_EQ(typical.tied, published.tied) << model.name;
    EXPECT_NEAR(static_cast<double>(typical.intermediate), static_cast<double>(published.intermediate), 128)
        << model.name;
  }
  EXPECT_EQ(compared, known.size());
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
