#include "spec/model/adapters/adapter_config.hpp"

#include <gtest/gtest.h>

#include "testing/contains.hpp"

namespace muster::spec {
namespace {

using testing::contains;

// As PEFT 0.21 writes it.
constexpr std::string_view written_by_peft = R"({
  "alora_invocation_tokens": null,
  "alpha_pattern": {"z.*": 3.5, "a": 2},
  "arrow_config": null,
  "auto_mapping": {"base_model_class": "LlamaForCausalLM", "parent_library": "transformers.models.llama"},
  "base_model_name_or_path": "base",
  "bias": "none",
  "corda_config": null,
  "ensure_weight_tying": false,
  "eva_config": null,
  "exclude_modules": ["lm_head"],
  "fan_in_fan_out": false,
  "inference_mode": true,
  "init_lora_weights": "gaussian",
  "layer_replication": null,
  "layers_pattern": "layers",
  "layers_to_transform": [0, 2],
  "loftq_config": {},
  "lora_alpha": 32,
  "lora_bias": false,
  "lora_dropout": 0.05,
  "megatron_config": null,
  "megatron_core": "megatron.core",
  "modules_to_save": ["lm_head"],
  "peft_type": "LORA",
  "peft_version": "0.21.2",
  "qalora_group_size": 16,
  "r": 4,
  "rank_pattern": {"q_proj": 2},
  "revision": null,
  "target_modules": ["q_proj", "v_proj"],
  "target_parameters": null,
  "task_type": "CAUSAL_LM",
  "trainable_token_indices": null,
  "use_bdlora": null,
  "use_dora": false,
  "use_qalora": false,
  "use_rslora": true
})";

std::string refused(const std::string& keys) {
  const auto config = parse_adapter_config(R"({"peft_type": "LORA", "target_modules": ["q_proj"], )" + keys + "}", "a");
  EXPECT_FALSE(config) << keys;
  return config ? "" : to_string(config.error());
}

TEST(AdapterConfig, IsWhatPeftWrites) {
  const auto config = parse_adapter_config(written_by_peft, "adapter_config.json");
  ASSERT_TRUE(config) << to_string(config.error());
  const AdapterConfig wanted{.options = {.rank = 4,
                                         .alpha = 32,
                                         .dropout = 0.05,
                                         .rank_stabilized = true,
                                         .targets = {"q_proj", "v_proj"},
                                         .excluded = {"lm_head"},
                                         .saved_modules = {"lm_head"},
                                         .layers = {0, 2},
                                         .layers_patterns = {"layers"},
                                         .rank_patterns = {{"q_proj", 2}},
                                         .alpha_patterns = {{"z.*", 3.5}, {"a", 2}}},
                             .base_model = "base"};
  EXPECT_EQ(*config, wanted);
}

TEST(AdapterConfig, IsReadBackAsItWasWritten) {
  AdapterConfig config = parse_adapter_config(written_by_peft, "a").value();
  EXPECT_EQ(parse_adapter_config(write_adapter_config(config), "a").value(), config);
  config.options = {.rank = 3, .alpha = 0.5, .weight_decomposed = true, .targets = {R"(.*\.(q|v)_proj)"}};
  config.base_model = config.task = "";
  config.transposed = true;
  const std::string text = write_adapter_config(config);
  EXPECT_EQ(parse_adapter_config(text, "a").value(), config);
  EXPECT_TRUE(contains(text, R"("target_modules": ".*\\.(q|v)_proj")"));
  EXPECT_TRUE(contains(text, R"("lora_alpha": 0.5)"));
}

TEST(AdapterConfig, HasPeftsDefaultsForKeysThatAreMissing) {
  const auto config = parse_adapter_config(R"({"peft_type": "LORA", "target_modules": "all-linear"})", "a").value();
  const AdapterConfig wanted{.options = {.rank = 8, .alpha = 8, .targets = {"all-linear"}}, .task = ""};
  EXPECT_EQ(config, wanted);
}

TEST(AdapterConfig, TakesATextForAPatternEvenWhereItCouldBeAName) {
  const auto config = parse_adapter_config(R"({"peft_type": "LORA", "target_modules": "lm_head"})", "a").value();
  EXPECT_EQ(config.options.targets, std::vector<std::string>{"(?:lm_head)"});
  EXPECT_TRUE(contains(refused(R"("exclude_modules": [".*x"])"), "a pattern is written as a text"));
}

TEST(AdapterConfig, RefusesByNameWhatWouldChangeTheNumbers) {
  EXPECT_TRUE(contains(refused(R"("lora_bias": true)"), "lora_bias: is true: biases of B are not supported"));
  EXPECT_TRUE(contains(refused(R"("layer_replication": [[0, 4]])"), "layers that are used more than once"));
  EXPECT_TRUE(contains(refused(R"("megatron_config": {"a": 1})"), "megatron_config: is an object, which is not supported"));
  EXPECT_TRUE(contains(refused(R"("from_the_future": 3)"), "from_the_future: is 3, which is not supported"));
  EXPECT_TRUE(contains(refused(R"("bias": "all")"), "trained biases are not supported"));
  EXPECT_TRUE(contains(refused(R"("init_lora_weights": "pissa")"), "\"pissa\", which changes the base model"));
  EXPECT_TRUE(contains(refused(R"("task_type": "FEATURE_EXTRACTION")"), "accepted: CAUSAL_LM, SEQ_CLS"));
  const std::string all = refused(R"("r": 0, "lora_alpha": "x", "rank_pattern": {"q": -1}, "layers_to_transform": [1.5])");
  for (const std::string key : {"r: is 0", "lora_alpha: is \"x\"", "rank_pattern: of \"q\" is -1", "names the layer 1.5"})
    EXPECT_TRUE(contains(all, key)) << all;
  EXPECT_TRUE(contains(to_string(parse_adapter_config(R"({"peft_type": "LOHA"})", "a").error()), "accepted: LORA"));
  EXPECT_TRUE(contains(to_string(parse_adapter_config(R"({"peft_type": "LORA"})", "a").error()), "names no module"));
}

}  // namespace
}  // namespace muster::spec
