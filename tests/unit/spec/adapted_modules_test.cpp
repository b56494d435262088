#include "spec/model/adapters/adapted_modules.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "system/files.hpp"
#include "testing/contains.hpp"

namespace muster::spec {
namespace {

using testing::contains;
using Texts = std::vector<std::string>;

ModelShape public_shape(const std::string& name) {
  const auto text = read_file(std::string(MUSTER_FIXTURES) + "/models/" + name + "/config.json");
  const auto config = parse_model_config(text.value(), name);
  EXPECT_TRUE(config) << to_string(config.error());
  return build_shape(config.value(), ElementType::bfloat16);
}

ModelShape tiny_shape(bool tied = false) {
  ModelConfig config = blank_config(Family::llama);
  config.vocabulary = 32;
  config.hidden = 16;
  config.intermediate = 24;
  config.layers = 3;
  config.heads = config.kv_heads = 2;
  config.head_size = 8;
  config.positions = 16;
  config.tied = tied;
  return build_shape(config, ElementType::float32);
}

Texts paths_of(const ModelShape& shape, const AdapterOptions& options) {
  const auto modules = adapted_modules(shape, options);
  EXPECT_TRUE(modules) << to_string(modules.error());
  Texts paths;
  for (const AdaptedModule& module : *modules) paths.push_back(module.path);
  return paths;
}

std::string refusal_of(const ModelShape& shape, const AdapterOptions& options) {
  const auto modules = adapted_modules(shape, options);
  EXPECT_FALSE(modules);
  return modules ? "" : to_string(modules.error());
}

std::int64_t adapter_parameters(const std::string& model, std::int64_t rank) {
  const ModelShape shape = public_shape(model);
  AdapterOptions options;
  options.rank = rank;
  std::int64_t parameters = 0;
  for (const AdapterTensor& tensor : adapter_tensors(shape, options, adapted_modules(shape, options).value(), {}))
    parameters += tensor.dimensions.elements();
  return parameters;
}

TEST(AdaptedModules, AreEveryLinearLayerButTheHeadWhereNothingIsNamed) {
  EXPECT_EQ(adapter_parameters("Llama-2-7B", 16), 39'976'960);
  EXPECT_EQ(adapter_parameters("Llama-3.1-8B", 16), 41'943'040);
  EXPECT_EQ(adapter_parameters("Llama-3.1-70B", 16), 207'093'760);
  EXPECT_EQ(adapter_parameters("Qwen2.5-7B", 16), 40'370'176);
  const ModelShape shape = tiny_shape();
  for (const std::string word : {"all-linear", "All-Linear"})
    EXPECT_EQ(paths_of(shape, {.targets = {word}}), paths_of(shape, {}));
}

TEST(AdaptedModules, AreThoseWhosePathIsANameOrEndsWithItAfterADot) {
  const ModelShape shape = tiny_shape();
  EXPECT_EQ(paths_of(shape, {.targets = {"v_proj", "model.layers.1.mlp.up_proj", "no_such"}}),
            (Texts{"model.layers.0.self_attn.v_proj", "model.layers.1.self_attn.v_proj", "model.layers.1.mlp.up_proj",
                   "model.layers.2.self_attn.v_proj"}));
  EXPECT_EQ(paths_of(shape, {.targets = {"0.mlp.up_proj", "lm_head"}}),
            (Texts{"model.layers.0.mlp.up_proj", "lm_head"}));
  EXPECT_TRUE(contains(refusal_of(shape, {.targets = {"proj", "elf_attn.v_proj"}}),
                       "the targets proj, elf_attn.v_proj match no module of the model"));
}

TEST(AdaptedModules, AreThoseThatASinglePatternMatchesAsAWhole) {
  const ModelShape shape = tiny_shape();
  EXPECT_EQ(paths_of(shape, {.targets = {R"(.*\.[02]\..*(?:q|k)_proj)"}}),
            (Texts{"model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.k_proj",
                   "model.layers.2.self_attn.q_proj", "model.layers.2.self_attn.k_proj"}));
  EXPECT_EQ(paths_of(shape, {.targets = {R"((?!.*layers\.[12]).*mlp\.(gate|up)_proj|lm_head)"}}),
            (Texts{"model.layers.0.mlp.gate_proj", "model.layers.0.mlp.up_proj", "lm_head"}));
  EXPECT_TRUE(contains(refusal_of(shape, {.targets = {"(q_proj)"}}), "match no module"));
  EXPECT_TRUE(contains(refusal_of(shape, {.targets = {"(q_proj"}}), "\"(q_proj\" is not a pattern: missing"));
  EXPECT_TRUE(contains(refusal_of(shape, {.targets = {"((a*)*)*((.|.)*)*[!?]"}}), "could not be matched with model"));
}

TEST(AdaptedModules, LeaveOutWhatIsExcludedOrTrainedAsAWhole) {
  const ModelShape shape = tiny_shape();
  EXPECT_EQ(paths_of(shape, {.targets = {"up_proj", "lm_head"},
                             .excluded = {R"(.*\.[01]\..*)"},
                             .saved_modules = {"lm_head"}}),
            (Texts{"model.layers.2.mlp.up_proj"}));
  EXPECT_EQ(paths_of(shape, {.targets = {"up_proj"}, .excluded = {"0.mlp.up_proj", "mlp"}}),
            (Texts{"model.layers.1.mlp.up_proj", "model.layers.2.mlp.up_proj"}));
  EXPECT_EQ(paths_of(shape, {.targets = {"q_proj"}, .saved_modules = {"layers.0", "1.self_attn"}}),
            (Texts{"model.layers.2.self_attn.q_proj"}));
  EXPECT_TRUE(contains(refusal_of(shape, {.targets = {"up_proj"}, .excluded = {"up_proj"}}),
                       "every module that the targets up_proj choose is excluded"));
}

TEST(AdaptedModules, AreOfTheNamedLayersWhereTheirPathIsNotNamedWhole) {
  const ModelShape shape = tiny_shape();
  EXPECT_EQ(paths_of(shape, {.targets = {"up_proj", "model.layers.0.mlp.down_proj"}, .layers = {2}}),
            (Texts{"model.layers.0.mlp.down_proj", "model.layers.2.mlp.up_proj"}));
  EXPECT_EQ(paths_of(shape, {.targets = {"up_proj"}, .layers = {1, 7}, .layers_patterns = {"blocks", "layers"}}),
            (Texts{"model.layers.1.mlp.up_proj"}));
  EXPECT_TRUE(contains(refusal_of(shape, {.targets = {"up_proj"}, .layers = {1}, .layers_patterns = {"h"}}),
                       "match no module of the model in the layers that are named"));
  EXPECT_TRUE(contains(refusal_of(shape, {.targets = {".*up_proj"}, .layers = {1}}), "cannot be listed besides"));
}

TEST(AdaptedModules, HaveTheRankAndScaleOfTheFirstPatternThatMatches) {
  const ModelShape shape = tiny_shape();
  AdapterOptions options{.rank = 4, .alpha = 8, .targets = {"up_proj"}};
  options.rank_patterns = {{"layers.0.mlp.up_proj", 2}, {R"(\d.mlp.up_proj)", 16}, {"up_proj", 1}};
  options.alpha_patterns = {{"1.*", 32}};
  auto modules = adapted_modules(shape, options).value();
  ASSERT_EQ(modules.size(), 3u);
  EXPECT_EQ(modules[0].rank, 2);
  EXPECT_EQ(modules[0].scale, 4);
  EXPECT_EQ(modules[1].rank, 16);
  EXPECT_EQ(modules[1].scale, 2);
  EXPECT_EQ(modules[2].scale, 0.5);
  options.rank_stabilized = true;
  modules = adapted_modules(shape, options).value();
  EXPECT_EQ(modules[0].scale, 8 / std::sqrt(2.0));
  EXPECT_EQ(modules[1].scale, 8);
  options.rank_patterns = {{"up_proj", 0}};
  EXPECT_TRUE(contains(refusal_of(shape, options), "an adapter of model.layers.0.mlp.up_proj with a rank of 0"));
}

TEST(AdaptedModules, KnowInputsAndOutputsOfWeightsThatAreStoredTransposed) {
  const ModelShape shape = public_shape("gpt2");
  const auto modules = adapted_modules(shape, {.rank = 3, .weight_decomposed = true, .targets = {"c_attn"}});
  ASSERT_FALSE(modules.value().empty());
  const AdaptedModule& first = modules->front();
  EXPECT_EQ(first.path, "transformer.h.0.attn.c_attn");
  EXPECT_EQ(first.inputs, 768);
  EXPECT_EQ(first.outputs, 3 * 768);
  const auto tensors = adapter_tensors(shape, {.rank = 3, .weight_decomposed = true}, {first}, {});
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].name, "transformer.h.0.attn.c_attn.lora_A.weight");
  EXPECT_EQ(tensors[0].dimensions, (Dimensions{{3, 768}, 2}));
  EXPECT_EQ(tensors[1].dimensions, (Dimensions{{3 * 768, 3}, 2}));
  EXPECT_EQ(tensors[2].name, "transformer.h.0.attn.c_attn.lora_magnitude_vector");
  EXPECT_EQ(tensors[2].dimensions, (Dimensions{{3 * 768}, 1}));
}

TEST(AdaptedModules, AreLinearLayersAndNothingElse) {
  const ModelShape shape = tiny_shape();
  EXPECT_TRUE(contains(refusal_of(shape, {.targets = {"embed_tokens"}}),
                       "model.embed_tokens, which is a Embedding"));
  EXPECT_TRUE(contains(refusal_of(shape, {.targets = {".*mlp.*"}}), "model.layers.0.mlp, which is a LlamaMLP"));
  EXPECT_TRUE(contains(refusal_of(shape, {.targets = {"query"}}),
                       "linear layers: q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, lm_head"));
}

TEST(AdaptedModules, AreNamedBrieflyWhereThatChoosesTheSame) {
  const ModelShape shape = tiny_shape();
  const auto named = [&](const AdapterOptions& options) {
    return target_names(shape, options, adapted_modules(shape, options).value());
  };
  EXPECT_EQ(named({}), (Texts{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}));
  EXPECT_EQ(named({.targets = {R"(.*\.1\..*down_proj)"}}), (Texts{"model.layers.1.mlp.down_proj"}));
}

TEST(SavedParameters, AreThoseOfEveryModuleWhosePathEndsWithAName) {
  const ModelShape shape = tiny_shape();
  Texts names;
  const auto saved = saved_parameters(shape, {.saved_modules = {"head", "1.mlp", "model.norm"}});
  ASSERT_TRUE(saved);
  for (const TensorId id : *saved) names.push_back(shape.path(id));
  EXPECT_EQ(names, (Texts{"model.layers.1.mlp.gate_proj.weight", "model.layers.1.mlp.up_proj.weight",
                          "model.layers.1.mlp.down_proj.weight", "model.norm.weight", "lm_head.weight"}));
  const auto wrong = saved_parameters(shape, {.saved_modules = {"score"}});
  ASSERT_FALSE(wrong);
  EXPECT_TRUE(contains(wrong.error().what, "no module of the model is called score"));
}

TEST(SavedParameters, OfLayersThatReadTheSameInputAreAllOfThemOrNone) {
  const ModelShape shape = tiny_shape();
  const auto some = saved_parameters(shape, {.saved_modules = {"q_proj", "v_proj"}});
  ASSERT_FALSE(some);
  EXPECT_TRUE(contains(some.error().what,
                       "model.layers.0.self_attn.q_proj.weight, model.layers.0.self_attn.v_proj.weight"));
  EXPECT_TRUE(contains(some.error().what, "but not model.layers.0.self_attn.k_proj.weight"));
  EXPECT_TRUE(saved_parameters(shape, {.saved_modules = {"q_proj", "k_proj", "v_proj"}}));
  EXPECT_TRUE(saved_parameters(shape, {.saved_modules = {"self_attn"}}));
  const auto asked = check_asked_modules(shape, {.saved_modules = {"gate_proj"}});
  ASSERT_FALSE(asked);
  EXPECT_TRUE(contains(asked.error().what, "model.modules_to_save: "));
}

TEST(SavedParameters, OfTiedTensorsAreApartAndThenNothingIsTied) {
  const ModelShape shape = public_shape("gpt2");
  EXPECT_TRUE(parts_tied(shape, {.saved_modules = {"lm_head"}}));
  EXPECT_TRUE(parts_tied(shape, {.saved_modules = {"wte"}}));
  EXPECT_FALSE(parts_tied(shape, {.saved_modules = {"ln_f", "wpe"}}));
  EXPECT_FALSE(parts_tied(shape, {}));
  EXPECT_FALSE(parts_tied(tiny_shape(), {.saved_modules = {"lm_head"}}));
}

}  // namespace
}  // namespace muster::spec
