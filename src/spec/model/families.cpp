#include "spec/model/families.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace muster::spec {
namespace {

// In the order of the enum. What a row does not name is as in Llama: rotary positions, RMS norms, a gated feed-forward,
// no biases.
std::span<const FamilyRow> family_table() {
  static const auto rows = std::to_array<FamilyRow>({
      {.name = "llama",
       .class_prefix = "Llama",
       .architecture = "LlamaForCausalLM",
       .defaults = {.family = Family::llama,
                    .vocabulary = 32000,
                    .hidden = 4096,
                    .intermediate = 11008,
                    .layers = 32,
                    .heads = 32,
                    .positions = 2048},
       .keys = {.attention_bias = true, .mlp_bias = true, .null_attention_dropout = true},
       .gguf = {.has_files = true, .interleaves_heads = true}},
      {.name = "mistral",
       .class_prefix = "Mistral",
       .architecture = "MistralForCausalLM",
       .defaults = {.family = Family::mistral,
                    .vocabulary = 32000,
                    .hidden = 4096,
                    .intermediate = 14336,
                    .layers = 32,
                    .heads = 32,
                    .kv_heads = 8,
                    .positions = 131072},
       .keys = {.null_kv_heads = false, .windows = WindowKeys::every_layer},
       .gguf = {.interleaves_heads = true}},  // files of it say llama
      {.name = "qwen2",
       .class_prefix = "Qwen2",
       .architecture = "Qwen2ForCausalLM",
       .defaults = {.family = Family::qwen2,
                    .vocabulary = 151936,
                    .hidden = 4096,
                    .intermediate = 22016,
                    .layers = 32,
                    .heads = 32,
                    .kv_heads = 32,
                    .positions = 32768,
                    .qkv_bias = true},
       .keys = {.windows = WindowKeys::some_layers},
       .gguf = {.has_files = true}},
      {.name = "qwen3",
       .class_prefix = "Qwen3",
       .architecture = "Qwen3ForCausalLM",
       .defaults = {.family = Family::qwen3,
                    .vocabulary = 151936,
                    .hidden = 4096,
                    .intermediate = 22016,
                    .layers = 32,
                    .heads = 32,
                    .kv_heads = 32,
                    .head_size = 128,
                    .positions = 32768,
                    .query_key_norm = true},
       .keys = {.attention_bias = true, .windows = WindowKeys::some_layers},
       .gguf = {.has_files = true}},
      {.name = "gpt2",
       .class_prefix = "GPT2",
       .architecture = "GPT2LMHeadModel",
       .layout = ModelLayout::gpt2,
       .defaults = {.family = Family::gpt2,
                    .vocabulary = 50257,
                    .hidden = 768,
                    .layers = 12,
                    .heads = 12,
                    .positions = 1024,
                    .tied = true,
                    .position_kind = PositionKind::learned,
                    .norm = NormKind::layer,
                    .gated = false,
                    .qkv_bias = true,
                    .output_bias = true,
                    .mlp_bias = true,
                    .activation = Activation::gelu_new,
                    .norm_epsilon = 1e-5,
                    .softmax_in_float32 = false,
                    .dropout = {0.1, 0.1, 0.1}},
       .gguf = {.has_files = true}},
      {.name = "arcee",
       .class_prefix = "Arcee",
       .architecture = "ArceeForCausalLM",
       .defaults = {.family = Family::arcee,
                    .vocabulary = 32000,
                    .hidden = 2560,
                    .intermediate = 18432,
                    .layers = 32,
                    .heads = 32,
                    .positions = 4096,
                    .gated = false,
                    .activation = Activation::relu2,
                    .norm_epsilon = 1e-5},
       .keys = {.attention_bias = true, .mlp_bias = true}},
  });
  return rows;
}

}  // namespace

std::span<const FamilyRow> all_families() { return family_table(); }

const FamilyRow& row_of(Family family) { return family_table()[static_cast<std::size_t>(family)]; }

std::vector<Word<ScoreUse>> words(ScoreUse) {
  return {{"sequences", ScoreUse::sequences}, {"tokens", ScoreUse::tokens}, {"values", ScoreUse::values}};
}

std::string architecture(const FamilyRow& family, const std::optional<ScoreHead>& score) {
  if (!score || !score->is_alone()) return std::string(family.architecture);
  const bool of_sequences = score->use == ScoreUse::sequences;
  return fmt::format("{}For{}Classification", family.class_prefix, of_sequences ? "Sequence" : "Token");
}

std::string_view name(Family family) { return row_of(family).name; }

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const FamilyRow& row : all_families()) names.emplace_back(row.name);
  return names;
}

std::optional<Family> family_named(std::string_view model_type) {
  const auto row = std::ranges::find(all_families(), model_type, &FamilyRow::name);
  if (row == all_families().end()) return std::nullopt;
  return row->defaults.family;
}

ModelConfig blank_config(Family family) {
  ModelConfig config = row_of(family).defaults;
  config.vocabulary = config.hidden = config.intermediate = config.layers = config.positions = 0;
  config.heads = config.kv_heads = config.head_size = 0;
  return config;
}

}  // namespace muster::spec
