#include "spec/model/model_source.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "system/files.hpp"
#include "checkpoint_bytes.hpp"
#include "testing/contains.hpp"
#include "testing/environment_variable.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::spec {
namespace {

namespace fs = std::filesystem;
using muster::testing::contains;
using muster::testing::EnvironmentVariable;
using muster::testing::ScratchFolder;
using testing::GgufBytes;
using testing::safetensors_of;
using Sizes = std::vector<std::pair<std::string, std::vector<std::int64_t>>>;

constexpr const char* tiny_config =
    R"({"model_type": "llama", "vocab_size": 10, "hidden_size": 256, "intermediate_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 4, "num_key_value_heads": 2, "torch_dtype": "float16"})";

// What a checkpoint of a configuration holds.
Sizes tensors_of(std::string_view config, bool with_prefix = true) {
  const ModelShape shape = build_shape(parse_model_config(config, "config").value(), ElementType::float32);
  Sizes sizes;
  for (std::size_t i = 0; i < shape.tensors.size(); ++i) {
    const TensorShape& tensor = shape.tensors[i];
    if (tensor.kind == TensorKind::derived || tensor.same_as) continue;
    std::string path = shape.path(TensorId{i});
    const std::string prefix = shape.modules[1].name + ".";
    if (!with_prefix && path.starts_with(prefix)) path.erase(0, prefix.size());
    sizes.emplace_back(path,
                       std::vector<std::int64_t>(tensor.dimensions.span().begin(), tensor.dimensions.span().end()));
  }
  return sizes;
}

class ModelSource : public ::testing::Test {
 protected:
  Result<ModelDescription> read(const fs::path& model, std::optional<ElementType> dtype = std::nullopt) const {
    return read_model(model.string(), {folder_.path() / "hub"}, dtype);
  }
  ModelDescription accepted(const fs::path& model, std::optional<ElementType> dtype = std::nullopt) const {
    auto read = this->read(model, dtype);
    EXPECT_TRUE(read) << to_string(read.error());
    return read ? std::move(*read) : ModelDescription{};
  }
  std::string refused(const fs::path& model) const {
    const auto read = this->read(model);
    EXPECT_FALSE(read) << "it was accepted";
    return read ? "" : to_string(read.error());
  }
  ScratchFolder folder_;
};

TEST_F(ModelSource, IsAFolderOrItsConfigJson) {
  folder_.write("config.json", tiny_config);
  for (const fs::path& path : {folder_.path(), folder_.path() / "config.json"}) {
    const ModelDescription model = accepted(path);
    EXPECT_EQ(model.name, path.string());
    EXPECT_EQ(model.config.hidden, 256);
    EXPECT_EQ(model.dtype, ElementType::float16);
    EXPECT_FALSE(model.checkpoint_bytes);
    EXPECT_FALSE(model.typical);
    EXPECT_EQ(model.shape.tensors[0].type, ElementType::float16);
  }
  EXPECT_EQ(accepted(folder_.path(), ElementType::float32).shape.tensors[0].type, ElementType::float32);
}

TEST_F(ModelSource, TakesTheTypeOfItsCheckpointOverItsConfigs) {
  folder_.write("config.json", tiny_config);
  const Sizes sizes = tensors_of(tiny_config);
  folder_.write("model.safetensors", safetensors_of(sizes, "BF16", 2));
  const ModelDescription model = accepted(folder_.path());
  EXPECT_EQ(model.dtype, ElementType::bfloat16);
  EXPECT_EQ(model.checkpoint_bytes, 2 * model.shape.parameter_count());
  EXPECT_TRUE(model.notes.empty());
}

TEST_F(ModelSource, RefusesACheckpointThatDisagreesWithItsConfig) {
  folder_.write("config.json", tiny_config);
  Sizes sizes = tensors_of(tiny_config);
  sizes[0].second = {11, 256};
  sizes.erase(sizes.begin() + 1);
  folder_.write("model.safetensors", safetensors_of(sizes));
  EXPECT_TRUE(contains(refused(folder_.path()), "model.safetensors", "model.embed_tokens.weight is [11, 256]",
                       "asks for [10, 256]", "model.layers.0.self_attn.q_proj.weight [256, 256] is missing"));
  EXPECT_EQ(accepted(folder_.path() / "config.json").config.vocabulary, 10) << "the configuration alone is fine";
}

TEST_F(ModelSource, SaysWhichTensorsHaveNoPlace) {
  folder_.write("config.json", tiny_config);
  Sizes sizes = tensors_of(tiny_config);
  sizes.emplace_back("model.layers.0.self_attn.rotary_emb.inv_freq", std::vector<std::int64_t>{32});
  folder_.write("model.safetensors", safetensors_of(sizes));
  EXPECT_TRUE(accepted(folder_.path()).notes.empty()) << "older versions saved that table";
  sizes.emplace_back("adapter.weight", std::vector<std::int64_t>{3});
  folder_.write("model.safetensors", safetensors_of(sizes));
  ASSERT_EQ(accepted(folder_.path()).notes.size(), 1u);
  EXPECT_TRUE(contains(accepted(folder_.path()).notes[0], "1 tensors", "adapter.weight"));
}

TEST_F(ModelSource, IsASafetensorsFileWithTheConfigBesideIt) {
  folder_.write("config.json", tiny_config);
  const auto file = folder_.write("weights.safetensors", safetensors_of(tensors_of(tiny_config)));
  EXPECT_EQ(accepted(file).config.heads, 4) << "as the configuration says";
  EXPECT_EQ(accepted(file).dtype, ElementType::float32);
}

TEST_F(ModelSource, OfOnePartIsTheWholeCheckpoint) {
  folder_.write("config.json", tiny_config);
  Sizes first = tensors_of(tiny_config);
  const Sizes second(first.begin() + 3, first.end());
  first.resize(3);
  std::string map;
  for (const auto& [name, sizes] : first) map += fmt::format(R"("{}": "one.safetensors", )", name);
  for (const auto& [name, sizes] : second) map += fmt::format(R"("{}": "two.safetensors", )", name);
  map.resize(map.size() - 2);
  folder_.write("model.safetensors.index.json", fmt::format(R"({{"weight_map": {{{}}}}})", map));
  const auto file = folder_.write("one.safetensors", safetensors_of(first));
  folder_.write("two.safetensors", safetensors_of(second));
  const ModelDescription model = accepted(file);
  EXPECT_EQ(model.checkpoint_bytes, 4 * model.shape.parameter_count());
  const auto other = folder_.write("other.safetensors", safetensors_of({{"layers.0.wq", {4}}}));
  EXPECT_TRUE(contains(refused(other), "other.safetensors", "is missing")) << "a file that the index does not list";
}

TEST_F(ModelSource, IsToldFromTheTensorsWithoutAConfig) {
  const auto file = folder_.write("model.safetensors", safetensors_of(tensors_of(tiny_config), "F16", 2));
  for (const fs::path& path : {folder_.path(), file}) {
    const ModelDescription model = accepted(path);
    EXPECT_EQ(model.config.family, Family::llama);
    EXPECT_EQ(model.config.hidden, 256);
    EXPECT_EQ(model.config.layers, 1);
    EXPECT_EQ(model.config.head_size, 128) << "it divides 256 and 128";
    EXPECT_EQ(model.config.kv_heads, 1);
    EXPECT_FALSE(model.config.tied);
    EXPECT_EQ(model.dtype, ElementType::float16);
    ASSERT_EQ(model.notes.size(), 2u);
    EXPECT_TRUE(contains(model.notes[0], "size of heads is not known", "128 is assumed"));
  }
}

TEST_F(ModelSource, IsToldFromTheTensorsOfEveryFamily) {
  const auto derived = [&](std::string_view config, bool with_prefix = true) {
    return accepted(folder_.write("x.safetensors", safetensors_of(tensors_of(config, with_prefix))));
  };
  const std::string sizes = R"("vocab_size": 8, "hidden_size": 128, "intermediate_size": 8, "num_hidden_layers": 2,
                               "num_attention_heads": 2, "num_key_value_heads": 1, "tie_word_embeddings": true)";
  const ModelDescription qwen2 = derived(R"({"model_type": "qwen2", )" + sizes + "}");
  EXPECT_EQ(qwen2.config.family, Family::qwen2);
  EXPECT_TRUE(qwen2.config.tied);
  EXPECT_EQ(qwen2.config.head_size, 64) << "128 does not divide the keys' 64";
  const ModelDescription qwen3 = derived(R"({"model_type": "qwen3", "head_dim": 32, )" + sizes + "}");
  EXPECT_EQ(qwen3.config.family, Family::qwen3);
  EXPECT_EQ(qwen3.config.head_size, 32) << "its normalisation tells";
  EXPECT_EQ(qwen3.notes.size(), 1u);
  const ModelDescription biased =
      derived(R"({"model_type": "llama", "attention_bias": true, "mlp_bias": true, )" + sizes + "}");
  EXPECT_EQ(biased.config.family, Family::llama);
  EXPECT_TRUE(biased.config.mlp_bias);
  for (const bool with_prefix : {true, false}) {
    const ModelDescription gpt2 = derived(
        R"({"model_type": "gpt2", "n_embd": 128, "n_head": 2, "n_layer": 3, "n_positions": 7, "vocab_size": 5})",
        with_prefix);
    EXPECT_EQ(gpt2.config.family, Family::gpt2);
    EXPECT_EQ(gpt2.config.heads, 2);
    EXPECT_EQ(gpt2.config.layers, 3);
    EXPECT_EQ(gpt2.config.positions, 7);
  }
}

TEST_F(ModelSource, IsNotGuessedWhereTensorsLeaveADoubt) {
  const auto write = [&](const Sizes& sizes) { return folder_.write("x.safetensors", safetensors_of(sizes)); };
  EXPECT_TRUE(contains(refused(write({{"bert.embeddings.weight", {4, 4}}})), "no config.json", "known family"));
  EXPECT_TRUE(
      contains(refused(write({{"model.embed_tokens.weight", {4, 4}}})), "without layers.0.self_attn.q_proj.weight"));
  Sizes sizes = tensors_of(tiny_config);
  sizes.emplace_back("model.layers.0.mlp.experts.0.weight", std::vector<std::int64_t>{2});
  EXPECT_TRUE(contains(refused(write(sizes)), "model.layers.0.mlp.experts.0.weight\" is not of a known family"));
  sizes = tensors_of(tiny_config);
  sizes.emplace_back("model.layers.8190.mlp.up_proj.weight", std::vector<std::int64_t>{2});
  EXPECT_TRUE(contains(refused(write(sizes)), "model.layers.1.self_attn.q_proj.weight", "more"));
  const std::string odd = R"({"model_type": "llama", "vocab_size": 4, "hidden_size": 20, "intermediate_size": 4,
                              "num_hidden_layers": 1, "num_attention_heads": 2})";
  EXPECT_TRUE(contains(refused(write(tensors_of(odd))), "size of the heads is not one of the usual ones", "config.json"));
}

TEST_F(ModelSource, RefusesCheckpointsQuantisedByAMethodThatIsNotRead) {
  folder_.write("config.json", R"({"model_type": "llama", "quantization_config": {"quant_method": "exl2"}})");
  folder_.write("model.safetensors", "of a kind that is not known");
  EXPECT_TRUE(contains(refused(folder_.path()), "quantised by \"exl2\", which is not read", "bitsandbytes"));
}

TEST_F(ModelSource, IsANameInTheHubCache) {
  const fs::path model = folder_.path() / "hub/models--Qwen--Qwen2-0.5B";
  fs::create_directories(model / "snapshots/abc123");
  fs::create_directories(model / "refs");
  EXPECT_TRUE(contains(refused("Qwen/Qwen2-0.5B"), "no model 'Qwen/Qwen2-0.5B'", "no file or folder",
                       "refs/main does not say"));
  std::ofstream(model / "refs/main") << "gone";
  EXPECT_TRUE(contains(refused("Qwen/Qwen2-0.5B"), "names a download that is not there: \"gone\""));
  std::ofstream(model / "refs/main") << "abc123\n";
  std::ofstream(model / "snapshots/abc123/config.json") << tiny_config;
  const ModelDescription found = accepted("Qwen/Qwen2-0.5B");
  EXPECT_EQ(found.name, "Qwen/Qwen2-0.5B");
  EXPECT_EQ(found.config.hidden, 256);
  std::ofstream(model / "refs/main") << "../../..";
  EXPECT_TRUE(contains(refused("Qwen/Qwen2-0.5B"), "not there"));
}

TEST_F(ModelSource, SaysEveryPlaceItWasLookedFor) {
  EXPECT_TRUE(contains(refused("Qwen/Qwen9"), "no file or folder",
                       (folder_.path() / "hub/models--Qwen--Qwen9").string(), "--params 7B"));
  EXPECT_TRUE(contains(refused("../not/there"), "no file or folder"));
  EXPECT_TRUE(contains(refused(""), "no model ''"));
  EXPECT_TRUE(contains(refused(folder_.path()), "holds no config.json", "model.safetensors"));
  const ScratchFolder other;
  other.write("some.gguf", "");
  EXPECT_TRUE(contains(refused(other.path()), "holds no config.json", "name the file:", "some.gguf"));
  EXPECT_TRUE(contains(refused(folder_.write("pytorch_model.bin", "")), "pickled", ".gguf"));
  EXPECT_TRUE(contains(refused(folder_.write("notes.txt", "")), "notes.txt", "accepted: a folder"));
}

TEST_F(ModelSource, LooksWhereTheEnvironmentSays) {
  const EnvironmentVariable cache("HF_HUB_CACHE", "~/models"), home("HF_HOME", "/data/hf"), user("HOME", "/home/u");
  const EnvironmentVariable general("XDG_CACHE_HOME", std::nullopt);
  EXPECT_EQ(model_search_from_environment().hub_cache, "/home/u/models");
  const EnvironmentVariable no_cache("HF_HUB_CACHE", std::nullopt);
  EXPECT_EQ(model_search_from_environment().hub_cache, "/data/hf/hub");
  const EnvironmentVariable no_home("HF_HOME", std::nullopt);
  EXPECT_EQ(model_search_from_environment().hub_cache, "/home/u/.cache/huggingface/hub");
  const EnvironmentVariable other("XDG_CACHE_HOME", "/cache");
  EXPECT_EQ(model_search_from_environment().hub_cache, "/cache/huggingface/hub");
}

TEST_F(ModelSource, KeepsItsStoreWhereTheEnvironmentSays) {
  const EnvironmentVariable own("MUSTER_MODELS", "~/models"), user("HOME", "/home/u"), data("XDG_DATA_HOME", "/data");
  EXPECT_EQ(model_search_from_environment().store, "/home/u/models");
  const EnvironmentVariable no_own("MUSTER_MODELS", std::nullopt);
  EXPECT_EQ(model_search_from_environment().store, "/data/muster/models");
  const EnvironmentVariable no_data("XDG_DATA_HOME", std::nullopt);
  EXPECT_EQ(model_search_from_environment().store, "/home/u/.local/share/muster/models");
}

TEST_F(ModelSource, FindsANameInTheStoreBeforeTheCacheAndSaysWhereItLooked) {
  const ScratchFolder store;
  std::filesystem::create_directories(store.path() / "small");
  std::filesystem::create_directories(store.path() / "folder");
  std::filesystem::create_directories(store.path() / "two");
  store.write("small/model.gguf", "");
  store.write("folder/config.json", "{}");
  store.write("two/a.gguf", "");
  store.write("two/b.gguf", "");
  const ModelSearch search{folder_.path() / "hub", store.path()};
  EXPECT_EQ(find_model("small", search).value(), store.path() / "small/model.gguf");
  EXPECT_EQ(find_model("folder", search).value(), store.path() / "folder");
  const auto two = find_model("two", search);
  ASSERT_FALSE(two);
  EXPECT_TRUE(
      contains(two.error().what, "no file or folder", "two holds no config.json and 2 GGUF files", "hub/models--two"));
  EXPECT_TRUE(contains(find_model("none", search).error().what, "no folder " + (store.path() / "none").string()));
  EXPECT_FALSE(find_model("../small", search));
}

// A GGUF file of one Llama block; all tensors F16, or the matrices Q8_0.
GgufBytes tiny_gguf(bool quantised) {
  GgufBytes bytes;
  bytes.word("general.architecture", "llama").number("llama.block_count", 1).number("llama.embedding_length", 64);
  bytes.number("llama.feed_forward_length", 128).number("llama.context_length", 512).number("llama.vocab_size", 10);
  bytes.number("llama.attention.head_count", 4).number("llama.attention.head_count_kv", 2);
  const auto add = [&](const char* name, std::uint64_t inputs, std::uint64_t outputs) {
    const std::uint64_t elements = inputs * outputs;
    if (quantised)
      bytes.tensor(name, {inputs, outputs}, 8, elements / 32 * 34);
    else
      bytes.tensor(name, {inputs, outputs}, 1, elements * 2);
  };
  add("token_embd.weight", 64, 10);
  add("blk.0.attn_q.weight", 64, 64);
  add("blk.0.attn_k.weight", 64, 32);
  add("blk.0.attn_v.weight", 64, 32);
  add("blk.0.attn_output.weight", 64, 64);
  add("blk.0.ffn_gate.weight", 64, 128);
  add("blk.0.ffn_up.weight", 64, 128);
  add("blk.0.ffn_down.weight", 128, 64);
  for (const char* name : {"blk.0.attn_norm.weight", "blk.0.ffn_norm.weight", "output_norm.weight"})
    bytes.tensor(name, {64}, 0, 256);
  return bytes;
}

TEST_F(ModelSource, IsAGgufFile) {
  const ModelDescription model = accepted(folder_.write("m.gguf", tiny_gguf(false).file()));
  EXPECT_EQ(model.dtype, ElementType::float16);
  EXPECT_TRUE(model.config.tied);
  EXPECT_EQ(model.checkpoint_bytes, 2 * (model.shape.parameter_count() - 192) + 4 * 192);
  EXPECT_TRUE(model.notes.empty());
}

TEST_F(ModelSource, OfPackedGgufBlocksIsCountedUnpackedAndSaysSo) {
  const ModelDescription model = accepted(folder_.write("m.gguf", tiny_gguf(true).file()));
  EXPECT_EQ(model.dtype, ElementType::float16);
  EXPECT_EQ(model.checkpoint_bytes, (model.shape.parameter_count() - 192) / 32 * 34 + 4 * 192);
  ASSERT_EQ(model.notes.size(), 1u);
  EXPECT_TRUE(contains(model.notes[0], "Q8_0", "float16"));
}

TEST_F(ModelSource, RefusesAGgufFileWhoseTensorsDisagreeWithItsMetadata) {
  GgufBytes bytes = tiny_gguf(false);
  bytes.tensor("output.weight", {64, 11}, 1, 64 * 11 * 2);
  EXPECT_TRUE(
      contains(refused(folder_.write("m.gguf", bytes.file())), "output.weight is [11, 64]", "asks for [10, 64]"));
}

// A checkpoint of tiny_config whose linear layers are GPTQ's, of zeros.
std::string gptq_safetensors() {
  nlohmann::json header;
  std::int64_t end = 0;
  const auto add = [&](const std::string& name, const char* dtype, std::vector<std::int64_t> sizes, std::int64_t bytes) {
    for (const std::int64_t size : sizes) bytes *= size;
    header[name] = {{"dtype", dtype}, {"shape", sizes}, {"data_offsets", {end, end + bytes}}};
    end += bytes;
  };
  for (const auto& [name, sizes] : tensors_of(tiny_config)) {
    if (sizes.size() == 1 || !name.starts_with("model.layers.")) {
      add(name, "F16", sizes, 2);
      continue;
    }
    const std::string stem = name.substr(0, name.size() - std::string_view("weight").size());
    const std::int64_t groups = std::max<std::int64_t>(1, sizes[1] / 128);
    add(stem + "qweight", "I32", {sizes[1] / 8, sizes[0]}, 4);
    add(stem + "qzeros", "I32", {groups, sizes[0] / 8}, 4);
    add(stem + "scales", "F16", {groups, sizes[0]}, 2);
  }
  return testing::safetensors_bytes(header.dump(), static_cast<std::size_t>(end));
}

TEST_F(ModelSource, IsOfItsOwnTypeWhereGptqsWeightsAreDequantised) {
  std::string config = tiny_config;
  config.insert(config.rfind('}'), R"(, "quantization_config": {"quant_method": "gptq", "bits": 4})");
  folder_.write("config.json", config);
  folder_.write("model.safetensors", gptq_safetensors());
  const ModelDescription model = accepted(folder_.path());
  EXPECT_EQ(model.dtype, ElementType::float16);
  EXPECT_EQ(model.shape.tensors[1].type, ElementType::float16);
  ASSERT_EQ(model.notes.size(), 1U);
  EXPECT_TRUE(contains(model.notes[0], "quantised by gptq", "dequantised to float16"));
  EXPECT_EQ(accepted(folder_.path(), ElementType::float32).dtype, ElementType::float32);
}

TEST_F(ModelSource, TakesSettingsOfQuantisedWeightsFromAFileBesideItsConfig) {
  folder_.write("config.json", tiny_config);
  folder_.write("gptq_model-4bit-128g.safetensors", gptq_safetensors());
  EXPECT_TRUE(contains(refused(folder_.path()), "gptq_model-4bit-128g.safetensors", "q_proj.weight"));
  folder_.write("quantize_config.json", R"({"bits": 4, "group_size": 128, "desc_act": false})");
  EXPECT_TRUE(contains(accepted(folder_.path()).notes.at(0), "quantised by gptq"));
  folder_.write("quantize_config.json", R"({"bits": 4, "group_size": 128, "is_marlin_format": true})");
  EXPECT_TRUE(contains(refused(folder_.path()), "quantize_config.json: format: is \"marlin\", which is not read"));
  folder_.write("quantize_config.json", "[]");
  EXPECT_TRUE(contains(refused(folder_.path()), "quantize_config.json"));
}

}  // namespace
}  // namespace muster::spec
