#include "spec/model/model_shape.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "system/files.hpp"

namespace muster::spec {
namespace {

ModelShape shape_of(const std::string& name, ElementType dtype = ElementType::bfloat16) {
  const auto text = read_file(std::string(MUSTER_FIXTURES) + "/models/" + name + "/config.json");
  const auto config = parse_model_config(text.value(), name);
  EXPECT_TRUE(config) << to_string(config.error());
  return build_shape(config.value(), dtype);
}

std::vector<std::string> paths(const ModelShape& shape, const std::vector<ModuleId>& ids) {
  std::vector<std::string> found;
  for (const ModuleId id : ids) found.push_back(shape.path(id));
  return found;
}

TEST(ModelShape, CountsTheParametersThatPublicModelsHave) {
  EXPECT_EQ(shape_of("Llama-2-7B").parameter_count(), 6'738'415'616);
  EXPECT_EQ(shape_of("Llama-3.1-8B").parameter_count(), 8'030'261'248);
  EXPECT_EQ(shape_of("Llama-3.1-70B").parameter_count(), 70'553'706'496);
  EXPECT_EQ(shape_of("Llama-3.1-405B").parameter_count(), 405'853'388'800);
  EXPECT_EQ(shape_of("Llama-3.2-1B").parameter_count(), 1'235'814'400);
  EXPECT_EQ(shape_of("Mistral-7B-v0.1").parameter_count(), 7'241'732'096);
  EXPECT_EQ(shape_of("Mistral-7B-v0.3").parameter_count(), 7'248'023'552);
  EXPECT_EQ(shape_of("Qwen2-0.5B").parameter_count(), 494'032'768);
  EXPECT_EQ(shape_of("Qwen2.5-7B").parameter_count(), 7'615'616'512);
  EXPECT_EQ(shape_of("Qwen3-0.6B").parameter_count(), 596'049'920);
  EXPECT_EQ(shape_of("Qwen3-8B").parameter_count(), 8'190'735'360);
  EXPECT_EQ(shape_of("gpt2").parameter_count(), 124'439'808);
  EXPECT_EQ(shape_of("gpt2-xl").parameter_count(), 1'557'611'200);
  EXPECT_EQ(shape_of("SmolLM2-135M").parameter_count(), 134'515'008);
  EXPECT_EQ(shape_of("TinyLlama-1.1B").parameter_count(), 1'100'048'384);
}

TEST(ModelShape, IsATreeInTheOrderOfDefinition) {
  const ModelShape shape = shape_of("Llama-3.2-1B");
  EXPECT_EQ(paths(shape, shape.children(ModuleId{0})), (std::vector<std::string>{"model", "lm_head"}));
  const auto attention = shape.find_module("model.layers.7.self_attn");
  ASSERT_TRUE(attention);
  EXPECT_EQ(shape.at(*attention).class_name, "LlamaAttention");
  EXPECT_EQ(paths(shape, shape.children(*attention)),
            (std::vector<std::string>{"model.layers.7.self_attn.q_proj", "model.layers.7.self_attn.k_proj",
                                      "model.layers.7.self_attn.v_proj", "model.layers.7.self_attn.o_proj"}));
  std::size_t tensors = 0;
  for (std::size_t i = 0; i < shape.modules.size(); ++i) {
    const ModuleShape& module = shape.modules[i];
    EXPECT_EQ(module.first_tensor, tensors);
    tensors += module.tensor_count;
    EXPECT_GT(module.end, i);
    if (module.parent) {
      EXPECT_LT(number(*module.parent), i);
      EXPECT_LE(module.end, shape.at(*module.parent).end);
    }
    for (const TensorShape& tensor : shape.tensors_of(ModuleId{i})) EXPECT_EQ(tensor.owner, ModuleId{i});
  }
  EXPECT_EQ(tensors, shape.tensors.size());
}

TEST(ModelShape, FindsEveryModuleByItsPathAndNothingElse) {
  const ModelShape shape = shape_of("gpt2");
  for (std::size_t i = 0; i < shape.modules.size(); ++i)
    EXPECT_EQ(shape.find_module(shape.path(ModuleId{i})), ModuleId{i});
  for (const char* path :
       {"transformer.", ".transformer", "transformer..h", "transformer.h.12", "h", "transformer.h.0.weight", "."})
    EXPECT_FALSE(shape.find_module(path)) << path;
  EXPECT_FALSE(ModelShape{}.find_module(""));
}

TEST(ModelShape, KnowsTheClassesThatStayWhole) {
  const ModelShape shape = shape_of("Qwen3-0.6B");
  EXPECT_EQ(shape.whole_classes, std::vector<std::string>{"Qwen3DecoderLayer"});
  EXPECT_TRUE(shape.is_whole(*shape.find_module("model.layers.3")));
  EXPECT_FALSE(shape.is_whole(*shape.find_module("model.layers")));
}

TEST(ModelShape, TiesTheHeadToTheEmbedding) {
  const ModelShape tied = shape_of("gpt2");
  const TensorShape& head = tied.tensors.back();
  ASSERT_TRUE(head.same_as);
  EXPECT_EQ(tied.path(*head.same_as), "transformer.wte.weight");
  EXPECT_EQ(head.dimensions, tied.at(*head.same_as).dimensions);
  EXPECT_FALSE(shape_of("Llama-2-7B").tensors.back().same_as);
}

TEST(ModelShape, SaysOfEveryParameterWhatItDoes) {
  for (const char* name : {"Llama-3.2-1B", "Qwen2-0.5B", "Qwen3-0.6B", "gpt2"}) {
    const ModelShape shape = shape_of(name);
    for (std::size_t i = 0; i < shape.tensors.size(); ++i) {
      const TensorShape& tensor = shape.tensors[i];
      if (tensor.kind != TensorKind::parameter) continue;
      EXPECT_NE(tensor.role, TensorRole::other) << shape.path(TensorId{i});
      EXPECT_EQ(shape.find(tensor.role, tensor.layer, tensor.bias), TensorId{i}) << shape.path(TensorId{i});
    }
  }
  const ModelShape qwen3 = shape_of("Qwen3-0.6B");
  EXPECT_EQ(qwen3.path(*qwen3.find(TensorRole::key_norm, 5)), "model.layers.5.self_attn.k_norm.weight");
  EXPECT_FALSE(qwen3.find(TensorRole::key_norm, std::nullopt));
  EXPECT_FALSE(qwen3.find(TensorRole::query_key_value, 5));
}

TEST(ModelShape, KeepsRotaryFrequenciesInFloat32) {
  for (const ElementType dtype : {ElementType::bfloat16, ElementType::float16, ElementType::float32}) {
    const ModelShape shape = shape_of("Llama-2-7B", dtype);
    for (const TensorShape& tensor : shape.tensors) {
      const bool frequency = tensor.name == "inv_freq" || tensor.name == "original_inv_freq";
      EXPECT_EQ(tensor.kind == TensorKind::derived, frequency);
      EXPECT_EQ(tensor.type, frequency ? ElementType::float32 : dtype);
    }
  }
}

TEST(ShapeBuilder, ThrowsWhenUsedInAnotherOrder) {
  EXPECT_THROW(ShapeBuilder().add("weight", {1}), std::logic_error);
  EXPECT_THROW(ShapeBuilder().close(), std::logic_error);
  ShapeBuilder builder;
  builder.open("", "Root");
  EXPECT_THROW(builder.finish({}), std::logic_error);
  builder.open("child", "Child");
  builder.close();
  EXPECT_THROW(builder.add("late", {1}), std::logic_error);
  EXPECT_THROW(builder.add("deep", {1, 2, 3, 4, 5}), std::logic_error);
  builder.close();
  EXPECT_THROW(builder.open("", "SecondRoot"), std::logic_error);
}

TEST(ShapeBuilder, TiesATieToTheFirstOfThem) {
  ShapeBuilder builder;
  builder.open("", "Root");
  const TensorId first = builder.add("first", {2, 3});
  const TensorId second = builder.tie("second", first);
  builder.tie("third", second);
  builder.close();
  const ModelShape shape = builder.finish({});
  EXPECT_EQ(shape.tensors[2].same_as, first);
  EXPECT_EQ(shape.parameter_count(), 6);
}

}  // namespace
}  // namespace muster::spec
