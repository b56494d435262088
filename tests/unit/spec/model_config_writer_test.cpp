#include "spec/model/model_config_writer.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "testing/contains.hpp"

namespace muster::spec {
namespace {

using testing::contains;

ModelConfig base_of(Family family) {
  ModelConfig config = blank_config(family);
  config.dropout = {};
  config.vocabulary = 1000;
  config.hidden = 64;
  config.intermediate = 160;
  config.layers = 3;
  config.heads = 4;
  config.kv_heads = family == Family::gpt2 ? 4 : 2;
  config.head_size = 16;
  config.positions = 512;
  config.norm_epsilon = 1e-5;
  config.dtype = ElementType::bfloat16;
  return config;
}

// What was written, read again.
ModelConfig round_trip(const ModelConfig& config) {
  const auto text = write_model_config(config, {});
  if (!text) throw std::logic_error(text.error().what);
  const auto read = parse_model_config(*text, "config.json");
  if (!read) throw std::logic_error(read.error().what);
  return *read;
}

TEST(ModelConfigWriter, WritesEveryFamilySoThatItReadsBackTheSame) {
  for (const std::string& word : family_names())
    for (const bool tied : {true, false}) {
      ModelConfig config = base_of(family_named(word).value());
      config.tied = tied;
      EXPECT_EQ(round_trip(config), config) << word;
    }
}

TEST(ModelConfigWriter, NamesClassifiersAndTheirLabels) {
  for (const std::string& word : family_names())
    for (const ScoreHead head : {ScoreHead{ScoreUse::sequences, 1}, ScoreHead{ScoreUse::tokens, 3}}) {
      ModelConfig config = base_of(family_named(word).value());
      config.score = head;
      config.tied = false;
      EXPECT_EQ(round_trip(config), config) << word;
    }
}

TEST(ModelConfigWriter, KeepsHeadsWindowsAndBiases) {
  ModelConfig config = base_of(Family::qwen3);
  config.head_size = 32;
  config.sliding_window = 100;
  config.sliding_layers = {false, true, false};
  EXPECT_EQ(round_trip(config), config);
  config = base_of(Family::mistral);
  config.sliding_window = 77;
  EXPECT_EQ(round_trip(config), config);
  config = base_of(Family::llama);
  config.qkv_bias = config.output_bias = config.mlp_bias = true;
  config.dropout.attention = 0.25;
  EXPECT_EQ(round_trip(config), config);
  config = base_of(Family::gpt2);
  config.scaled_attention = false;
  config.attention_scaled_by_layer = true;
  config.dropout = {0.1, 0.2, 0.3};
  EXPECT_EQ(round_trip(config), config);
}

TEST(ModelConfigWriter, KeepsEveryKindOfRope) {
  for (const RopeKind kind : {RopeKind::standard, RopeKind::linear, RopeKind::dynamic, RopeKind::yarn,
                              RopeKind::longrope, RopeKind::llama3}) {
    ModelConfig config = base_of(Family::llama);
    config.rope.kind = kind;
    config.rope.theta = 500000;
    if (kind != RopeKind::standard) {
      config.rope.factor = 8;
      config.rope.original_positions = kind == RopeKind::linear ? config.positions : 128;
    }
    if (kind == RopeKind::yarn) {
      config.rope.beta_fast = 16;
      config.rope.mscale = 0.7;
      config.rope.truncate = false;
      config.rope.attention_factor = 1.25;
    }
    if (kind == RopeKind::llama3) config.rope.high_frequency_factor = 6;
    if (kind == RopeKind::longrope) {
      config.rope.short_factors.assign(8, 1.5);
      config.rope.long_factors.assign(8, 4.0);
    }
    EXPECT_EQ(round_trip(config), config) << name(kind);
  }
}

TEST(ModelConfigWriter, NamesTheTokensWithATask) {
  const auto text = write_model_config(base_of(Family::llama), {.begin = 1, .padding = 0, .ends = {2, 7}});
  const auto object = nlohmann::json::parse(text.value());
  EXPECT_EQ(object["bos_token_id"], 1);
  EXPECT_EQ(object["eos_token_id"], nlohmann::json({2, 7}));
  EXPECT_EQ(nlohmann::json::parse(write_generation_config({.begin = 1, .padding = {}, .ends = {2}})),
            nlohmann::json({{"bos_token_id", 1}, {"eos_token_id", 2}}));
}

TEST(ModelConfigWriter, RefusesWhatTransformersHasNoWordFor) {
  ModelConfig config = base_of(Family::llama);
  config.sliding_window = 64;
  auto refused = write_model_config(config, {});
  ASSERT_FALSE(refused);
  EXPECT_TRUE(contains(refused.error().what, "llama", "a sliding window"));
  config = base_of(Family::llama);
  config.qkv_bias = true;
  refused = write_model_config(config, {});
  ASSERT_FALSE(refused);
  EXPECT_TRUE(contains(refused.error().what, "biases of query, key and value there"));
}

}  // namespace
}  // namespace muster::spec
