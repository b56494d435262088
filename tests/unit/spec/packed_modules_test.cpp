#include "spec/model/quantized/packed_modules.hpp"

#include <gtest/gtest.h>

#include <string>

#include "spec/model/model_config.hpp"
#include "testing/contains.hpp"

namespace muster::spec {
namespace {

using testing::contains;
using Texts = std::vector<std::string>;

ModelShape shape_of(Family family, std::int64_t layers = 12) {
  ModelConfig config = blank_config(family);
  config.vocabulary = 32;
  config.hidden = 16;
  config.intermediate = 24;
  config.layers = layers;
  config.heads = config.kv_heads = 2;
  config.head_size = 8;
  config.positions = 16;
  return build_shape(config, ElementType::float32);
}

Texts packed(const ModelShape& shape, const Texts& skipped) {
  const auto weights = packed_weights(shape, skipped);
  EXPECT_TRUE(weights) << to_string(weights.error());
  Texts paths;
  for (const TensorId id : *weights) paths.push_back(shape.path(id));
  return paths;
}

std::size_t count(const ModelShape& shape, const Texts& skipped) { return packed(shape, skipped).size(); }

TEST(PackedModules, AreTheLinearLayersOfTheBlocks) {
  EXPECT_EQ(packed(shape_of(Family::llama, 1), {}),
            (Texts{"model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.k_proj.weight",
                   "model.layers.0.self_attn.v_proj.weight", "model.layers.0.self_attn.o_proj.weight",
                   "model.layers.0.mlp.gate_proj.weight", "model.layers.0.mlp.up_proj.weight",
                   "model.layers.0.mlp.down_proj.weight"}));
  EXPECT_EQ(packed(shape_of(Family::gpt2, 1), {}),
            (Texts{"transformer.h.0.attn.c_attn.weight", "transformer.h.0.attn.c_proj.weight",
                   "transformer.h.0.mlp.c_fc.weight", "transformer.h.0.mlp.c_proj.weight"}));
}

TEST(PackedModules, StayWhereAPathBeginsOrEndsWithWhatIsSkipped) {
  const ModelShape shape = shape_of(Family::llama);
  EXPECT_EQ(count(shape, {}), 12U * 7);
  EXPECT_EQ(count(shape, {"lm_head"}), 12U * 7);
  EXPECT_EQ(count(shape, {"down_proj"}), 12U * 6);
  EXPECT_EQ(count(shape, {"proj"}), 0U);  // the end of any of these paths
  EXPECT_EQ(count(shape, {"model.layers.1"}), 11U * 7);     // up to a dot: not layers 10 and 11
  EXPECT_EQ(count(shape, {"model.layers.1."}), 9U * 7);     // it is a pattern: the dot stands for a digit, too
  EXPECT_EQ(count(shape, {"model.layers.1.mlp", "model.layers.0.self_attn.o_proj"}), 12U * 7 - 4);
  EXPECT_EQ(count(shape, {"mlp"}), 12U * 7);  // begins no path, ends none
}

TEST(PackedModules, MaySkipByAPattern) {
  const ModelShape shape = shape_of(Family::llama);
  EXPECT_EQ(count(shape, {R"(model\.layers\.\d\.mlp)"}), 12U * 7 - 10 * 3);
  EXPECT_EQ(count(shape, {".*mlp.*"}), 12U * 4);
  EXPECT_EQ(count(shape, {"model.layers.0|model.layers.1"}), 10U * 7);
}

TEST(PackedModules, InAFileSomeOfThoseThatReadTheSameInputMayStay) {
  const ModelShape shape = shape_of(Family::llama);
  const auto in_file = packable_weights(shape, {"q_proj"});
  ASSERT_TRUE(in_file);
  EXPECT_EQ(in_file->size(), 12U * 6);
  const auto in_memory = packed_weights(shape, {"q_proj"});
  ASSERT_FALSE(in_memory);
  EXPECT_TRUE(contains(in_memory.error().what, "which is read with it"));
}

TEST(PackedModules, OfAFileAreThoseWhoseGroupHasTheSameCodes) {
  const ModelShape shape = shape_of(Family::llama, 1);
  PackedByName codes;
  for (const std::string& name : packed(shape, {})) codes[name] = {};
  const std::string block = "model.layers.0.";
  codes[block + "self_attn.q_proj.weight"].double_quantized = true;  // no difference in memory
  codes[block + "mlp.up_proj.weight"].code = PackedCode::int8;
  PackedByName held = codes;
  leave_out_parted_groups(shape, held);
  EXPECT_EQ(held.size(), 5U);
  EXPECT_FALSE(held.contains(block + "mlp.gate_proj.weight") || held.contains(block + "mlp.up_proj.weight"));
  codes.erase(block + "self_attn.k_proj.weight");
  leave_out_parted_groups(shape, codes);
  EXPECT_EQ(codes.size(), 2U);
}

TEST(PackedModules, WhatIsNoPatternIsRefused) {
  for (const std::string text : {"model.(layers", "a)(b"}) {
    const auto weights = packed_weights(shape_of(Family::llama), {text});
    ASSERT_FALSE(weights);
    EXPECT_TRUE(contains(weights.error().what, text, "is not a pattern"));
  }
}

}  // namespace
}  // namespace muster::spec
