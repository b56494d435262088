// The table of families: what is known of each, in one place.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "spec/model/model_config.hpp"

namespace muster::spec {

// Families that name their modules, and the keys of config.json, alike.
enum class ModelLayout { llama, gpt2 };

// The keys about sliding windows that a family's config.json has.
enum class WindowKeys {
  none,
  every_layer,  // sliding_window
  some_layers,  // and use_sliding_window, with layer_types or max_window_layers
};

// Where families of Llama's layout differ in what config.json may say.
struct ConfigKeys {
  bool attention_bias = false;  // of all four projections; without the key biases are as in the family's defaults
  bool mlp_bias = false;
  bool null_kv_heads = true;            // null: as many as heads
  bool null_attention_dropout = false;  // null: the default
  WindowKeys windows = WindowKeys::none;
};

struct GgufFamily {
  bool has_files = false;           // files of it name it as their architecture
  bool interleaves_heads = false;   // the two elements of a rotated pair are next to each other
};

struct FamilyRow {
  std::string_view name;          // model_type
  std::string_view class_prefix;  // of its classes in transformers: "Llama" → LlamaDecoderLayer
  std::string_view architecture;  // the class that is its causal language model
  ModelLayout layout = ModelLayout::llama;
  // What transformers' configuration class has for keys that are missing, and the switches. Absent kv_heads (0) are
  // as many as heads; an absent head_size is hidden / heads.
  ModelConfig defaults;
  ConfigKeys keys = {};
  GgufFamily gguf = {};
};

// In the order of the enum.
std::span<const FamilyRow> all_families();
const FamilyRow& row_of(Family family);

// The class in transformers of a model of this family: "LlamaForCausalLM", "LlamaForSequenceClassification".
std::string architecture(const FamilyRow& family, const std::optional<ScoreHead>& score);

}  // namespace muster::spec
