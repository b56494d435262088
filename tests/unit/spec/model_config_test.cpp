#include "spec/model/model_config.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "system/files.hpp"
#include "testing/contains.hpp"

namespace muster::spec {
namespace {

using muster::testing::contains;

Result<ModelConfig> parse(std::string_view text) { return parse_model_config(text, "config.json"); }

ModelConfig accepted(std::string_view text) {
  const auto config = parse(text);
  EXPECT_TRUE(config) << to_string(config.error());
  return config ? *config : ModelConfig{};
}

std::string refused(std::string_view text) {
  const auto config = parse(text);
  EXPECT_FALSE(config) << "it was accepted: " << text;
  return config ? "" : to_string(config.error());
}

ModelConfig fixture(const std::string& name) {
  const auto text = read_file(std::string(MUSTER_FIXTURES) + "/models/" + name + "/config.json");
  EXPECT_TRUE(text);
  return accepted(*text);
}

TEST(ModelConfig, BeginsBlankWithTheSwitchesOfItsFamily) {
  for (const std::string& word : family_names()) {
    const Family family = family_named(word).value();
    const ModelConfig blank = blank_config(family);
    EXPECT_EQ(blank.family, family);
    EXPECT_EQ(name(family), word);
    EXPECT_EQ(blank.hidden + blank.layers + blank.heads + blank.vocabulary, 0);
  }
  EXPECT_EQ(blank_config(Family::llama), ModelConfig{});
  EXPECT_TRUE(blank_config(Family::qwen3).query_key_norm);
  EXPECT_EQ(blank_config(Family::gpt2).position_kind, PositionKind::learned);
}

TEST(ModelConfig, ReadsAPublicLlama) {
  const ModelConfig config = fixture("Llama-3.1-405B");
  ModelConfig expected;
  expected.vocabulary = 128256;
  expected.hidden = 16384;
  expected.intermediate = 53248;
  expected.layers = 126;
  expected.heads = 128;
  expected.kv_heads = 8;
  expected.head_size = 128;
  expected.positions = 131072;
  expected.dtype = ElementType::bfloat16;
  expected.norm_epsilon = 1e-5;
  expected.rope.kind = RopeKind::llama3;
  expected.rope.theta = 500000;
  expected.rope.factor = 8;
  expected.rope.original_positions = 8192;
  EXPECT_EQ(config, expected);
  EXPECT_EQ(config.query_width(), 16384);
  EXPECT_EQ(config.kv_width(), 1024);
}

TEST(ModelConfig, FillsInWhatTransformersWould) {
  const ModelConfig llama = accepted(R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4})");
  EXPECT_EQ(llama.kv_heads, 4);
  EXPECT_EQ(llama.head_size, 16);
  EXPECT_EQ(llama.intermediate, 11008);
  EXPECT_FALSE(llama.tied);
  const ModelConfig mistral = accepted(R"({"model_type": "mistral"})");
  EXPECT_EQ(mistral.kv_heads, 8);
  EXPECT_EQ(mistral.sliding_window, 4096);
  EXPECT_TRUE(mistral.sliding_layers.empty());
  const ModelConfig qwen3 = accepted(R"({"model_type": "qwen3", "hidden_size": 1024})");
  EXPECT_EQ(qwen3.head_size, 128) << "not hidden / heads";
  EXPECT_FALSE(qwen3.qkv_bias);
  EXPECT_TRUE(accepted(R"({"model_type": "qwen2"})").qkv_bias);
  const ModelConfig gpt2 = accepted(R"({"model_type": "gpt2"})");
  EXPECT_EQ(gpt2.intermediate, 4 * 768);
  EXPECT_TRUE(gpt2.tied);
  EXPECT_EQ(gpt2.dropout, (Dropout{0.1, 0.1, 0.1}));
}

TEST(ModelConfig, ReadsBothSpellings) {
  const ModelConfig old_words = accepted(
      R"({"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "torch_dtype": "float16"})");
  const ModelConfig new_words = accepted(
      R"({"model_type": "gpt2", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
          "max_position_embeddings": 64, "dtype": "float16"})");
  EXPECT_EQ(old_words, new_words);
  EXPECT_EQ(old_words.hidden, 32);
  EXPECT_EQ(old_words.dtype, ElementType::float16);
}

TEST(ModelConfig, RefusesTwoSpellingsThatDisagree) {
  EXPECT_TRUE(contains(refused(R"({"model_type": "gpt2", "n_embd": 64, "hidden_size": 128, "n_head": 4})"),
                       "config.json: hidden_size: is 128, but n_embd, which means the same, is 64"));
}

TEST(ModelConfig, DoesNotGuessWhetherNCtxIsMeant) {
  EXPECT_TRUE(
      contains(refused(R"({"model_type": "gpt2", "n_ctx": 2048})"), "n_ctx", "2048", "1024", "write n_positions"));
  EXPECT_EQ(accepted(R"({"model_type": "gpt2", "n_ctx": 2048, "n_positions": 512})").positions, 512);
}

TEST(ModelConfig, LetsTheDtypeKeyWinOverItsOldSpelling) {
  EXPECT_EQ(accepted(R"({"model_type": "llama", "dtype": "bfloat16", "torch_dtype": "float16"})").dtype,
            ElementType::bfloat16);
  EXPECT_EQ(accepted(R"({"model_type": "llama", "dtype": null, "torch_dtype": "float16"})").dtype,
            ElementType::float16);
  EXPECT_FALSE(accepted(R"({"model_type": "llama"})").dtype);
  EXPECT_TRUE(contains(refused(R"({"model_type": "llama", "torch_dtype": "bf16"})"), "torch_dtype: is \"bf16\""));
}

TEST(ModelConfig, KnowsWhichLayersSlide) {
  const ModelConfig config = accepted(
      R"({"model_type": "qwen2", "use_sliding_window": true, "sliding_window": 512, "max_window_layers": 2,
          "num_hidden_layers": 4})");
  EXPECT_EQ(config.sliding_window, 512);
  EXPECT_EQ(config.sliding_layers, (std::vector<bool>{false, false, true, true}));
  const ModelConfig listed = accepted(
      R"({"model_type": "qwen3", "use_sliding_window": true, "num_hidden_layers": 2,
          "layer_types": ["sliding_attention", "full_attention"]})");
  EXPECT_EQ(listed.sliding_layers, (std::vector<bool>{true, false}));
  EXPECT_FALSE(accepted(R"({"model_type": "qwen2", "sliding_window": 512})").sliding_window) << "it is switched off";
  EXPECT_FALSE(fixture("Mistral-7B-v0.3").sliding_window);
  EXPECT_EQ(fixture("Mistral-7B-v0.1").sliding_window, 4096);
}

TEST(ModelConfig, GivesLlamaItsBiases) {
  const ModelConfig config = accepted(R"({"model_type": "llama", "attention_bias": true, "mlp_bias": true})");
  EXPECT_TRUE(config.qkv_bias && config.output_bias && config.mlp_bias);
  EXPECT_FALSE(accepted(R"({"model_type": "mistral", "attention_bias": true})").qkv_bias) << "Mistral has none";
}

TEST(ModelConfig, RefusesOtherFamiliesByName) {
  EXPECT_TRUE(contains(refused(R"({"model_type": "lama"})"), "model_type \"lama\" is not known", "do you mean llama?",
                       "llama, mistral, qwen2, qwen3, gpt2"));
  EXPECT_TRUE(contains(refused(R"({"hidden_size": 4})"), "model_type is missing"));
  EXPECT_TRUE(contains(refused(R"({"model_type": 7})"), "model_type is 7"));
  EXPECT_TRUE(contains(refused(R"({"model_type": "llava", "text_config": {"model_type": "llama"}})"), "llava",
                       "several parts", "text_config is \"llama\""));
  EXPECT_TRUE(contains(refused(R"({"model_type": "llama", "text_config": {}})"), "text_config", "llama"));
}

TEST(ModelConfig, RefusesModelsThatAreNoCausalLanguageModel) {
  EXPECT_TRUE(contains(refused(R"({"model_type": "llama", "architectures": ["LlamaForQuestionAnswering"]})"),
                       "LlamaForQuestionAnswering", "not a causal language model", "LlamaForCausalLM"));
  EXPECT_TRUE(contains(refused(R"({"model_type": "gpt2", "add_cross_attention": true})"), "add_cross_attention"));
}

TEST(ModelConfig, ReportsEveryWrongKeyAtOnce) {
  const std::string text = refused(
      R"({"model_type": "llama", "hidden_size": -64, "num_attention_heads": 0, "vocab_size": "many",
          "intermediate_size": 1.5, "num_hidden_layers": null, "tie_word_embeddings": 1, "hidden_act": "sliu",
          "attention_dropout": 2, "rope_scaling": [], "max_position_embeddings": 99999999999999999999})");
  EXPECT_TRUE(contains(text, "hidden_size: is -64", "num_attention_heads: is 0", "vocab_size: is \"many\"",
                       "intermediate_size: is 1.5", "num_hidden_layers: is null", "tie_word_embeddings: is 1",
                       "hidden_act: is \"sliu\"; do you mean silu?", "attention_dropout: is 2",
                       "rope_scaling: is a list", "max_position_embeddings: is "));
  EXPECT_TRUE(contains(text, "config.json: hidden_size"));
}

TEST(ModelConfig, RefusesHeadsThatDoNotDivide) {
  EXPECT_TRUE(contains(refused(R"({"model_type": "llama", "hidden_size": 100, "num_attention_heads": 3})"),
                       "3 heads do not divide hidden_size 100"));
  EXPECT_EQ(accepted(R"({"model_type": "qwen3", "hidden_size": 100, "num_attention_heads": 3, "head_dim": 8,
                         "num_key_value_heads": 1})")
                .query_width(),
            24);
  EXPECT_TRUE(contains(refused(R"({"model_type": "llama", "num_key_value_heads": 5})"), "num_key_value_heads 5",
                       "num_attention_heads 32"));
  EXPECT_TRUE(contains(refused(R"({"model_type": "llama", "head_dim": 7})"), "head_dim 7 is odd"));
  EXPECT_TRUE(
      contains(refused(R"({"model_type": "gpt2", "n_embd": 10, "n_head": 3})"), "3 heads do not divide n_embd 10"));
}

TEST(ModelConfig, BoundsSizesSoThatNoProductOverflows) {
  const std::string largest_accepted = fmt::format(
      R"({{"model_type": "llama", "vocab_size": {}, "hidden_size": {}, "intermediate_size": {}, "num_hidden_layers": {},
          "num_attention_heads": {}, "head_dim": 2, "max_position_embeddings": {}}})",
      largest::vocabulary, largest::hidden, largest::intermediate, largest::layers, largest::attention_width / 2,
      largest::positions);
  const ModelConfig config = accepted(largest_accepted);
  std::int64_t block = 0, parameters = 0, bytes = 0;
  EXPECT_FALSE(__builtin_mul_overflow(
      config.hidden, 2 * (config.query_width() + config.kv_width()) + 3 * config.intermediate, &block));
  EXPECT_FALSE(__builtin_mul_overflow(block, config.layers, &parameters));
  EXPECT_FALSE(__builtin_add_overflow(parameters, 2 * config.vocabulary * config.hidden, &parameters));
  EXPECT_FALSE(__builtin_mul_overflow(parameters, 18, &bytes)) << "of state per parameter while training";
  EXPECT_TRUE(contains(refused(R"({"model_type": "llama", "num_hidden_layers": 8193})"), "8193", "from 1 to 8192"));
  EXPECT_TRUE(contains(refused(R"({"model_type": "llama", "num_attention_heads": 4194304, "head_dim": 4194304,
                                   "num_key_value_heads": 1, "hidden_size": 64})"),
                       "is more than 4194304"));
}

TEST(ModelConfig, ChecksTheKindOfRotarySettings) {
  EXPECT_TRUE(contains(refused(R"({"model_type": "llama", "rope_scaling": {"type": "yam"}})"), "rope_scaling.rope_type",
                       "\"yam\"", "yarn"));
  EXPECT_TRUE(contains(refused(R"({"model_type": "llama", "rope_theta": "big"})"), "rope_theta: is \"big\""));
  EXPECT_TRUE(
      contains(refused(R"({"model_type": "llama", "partial_rotary_factor": 0.5})"), "partial_rotary_factor: is 0.5"));
  accepted(R"({"model_type": "llama", "rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0,
                                       "low_freq_factor": 1, "high_freq_factor": 4}})");
  EXPECT_TRUE(contains(refused(R"({"model_type": "llama", "rope_parameters": {"rope_type": "llama3", "factor": 8.0}})"),
                       "low_freq_factor: is missing", "high_freq_factor: is missing"));
  EXPECT_TRUE(
      contains(refused(R"({"model_type": "llama", "rope_scaling": {"type": "dynamic"}})"), "factor: is missing"));
  EXPECT_TRUE(contains(refused(R"({"model_type": "llama", "head_dim": 8, "rope_parameters":
                                   {"rope_type": "longrope", "short_factor": [1, 1], "long_factor": [1, 2, 3, 4]}})"),
                       "short_factor: has 2 entries", "a list of 4"));
}

TEST(ModelConfig, ReadsTheRotarySettingsInBothSpellings) {
  const ModelConfig old =
      accepted(R"({"model_type": "llama", "rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 4}})");
  EXPECT_EQ(old.rope.kind, RopeKind::linear);
  EXPECT_EQ(old.rope.theta, 5e5);
  EXPECT_EQ(old.rope.factor, 4);
  const ModelConfig present = accepted(
      R"({"model_type": "llama", "rope_parameters": {"rope_type": "linear", "rope_theta": 5e5, "factor": 4}})");
  EXPECT_EQ(present.rope, old.rope);
  const ModelConfig yarn = accepted(R"({"model_type": "qwen2", "max_position_embeddings": 4096, "rope_scaling":
                                        {"type": "yarn", "original_max_position_embeddings": 1024}})");
  EXPECT_EQ(yarn.rope.factor, 4);  // the ratio of the positions
}

TEST(ModelConfig, RefusesTextThatIsNoObject) {
  EXPECT_TRUE(contains(refused("{\"model_type\": "), "config.json", "invalid JSON at byte"));
  EXPECT_TRUE(contains(refused("[1]"), "no JSON object"));
  EXPECT_TRUE(contains(refused(""), "invalid JSON"));
  EXPECT_TRUE(contains(refused(std::string(1'000'000, '[')), "nested deeper"));
  EXPECT_TRUE(
      contains(refused(R"({"model_type": "llama", "hidden_size": 64, "hidden_size": 128})"), "\"hidden_size\" twice"));
}

TEST(ModelConfig, KnowsAClassifierByItsArchitectureAndItsLabelsByTheirNames) {
  const auto score = [](std::string_view rest) {
    return accepted(fmt::format(R"({{"model_type": "qwen2", "tie_word_embeddings": true, {}}})", rest));
  };
  const ModelConfig reward = score(R"("architectures": ["Qwen2ForSequenceClassification"], "id2label": {"0": "LABEL_0"})");
  EXPECT_EQ(reward.score, (ScoreHead{ScoreUse::sequences, 1}));
  EXPECT_FALSE(reward.tied);  // there is nothing to tie the embedding to
  EXPECT_FALSE(reward.predicts_tokens());
  EXPECT_EQ(score(R"("architectures": ["Qwen2ForSequenceClassification"])").score, (ScoreHead{ScoreUse::sequences, 2}));
  EXPECT_EQ(score(R"("architectures": ["Qwen2ForTokenClassification"], "num_labels": 3)").score,
            (ScoreHead{ScoreUse::tokens, 3}));
  EXPECT_EQ(score(R"("architectures": ["Qwen2ForCausalLM"], "id2label": {"0": "LABEL_0"})").score, std::nullopt);
  EXPECT_TRUE(contains(refused(R"({"model_type": "qwen2", "architectures": ["Qwen2ForSequenceClassification"], "id2label": 1})"),
                       "id2label: is 1"));
}

}  // namespace
}  // namespace muster::spec
