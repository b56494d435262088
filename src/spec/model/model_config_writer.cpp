#include "spec/model/model_config_writer.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "spec/model/families.hpp"

namespace muster::spec {
namespace {

using nlohmann::ordered_json;

void write_tokens(ordered_json& object, const TokenIds& tokens) {
  if (tokens.begin) object["bos_token_id"] = *tokens.begin;
  if (tokens.ends.size() == 1) object["eos_token_id"] = tokens.ends.front();
  if (tokens.ends.size() > 1) object["eos_token_id"] = tokens.ends;
  if (tokens.padding) object["pad_token_id"] = *tokens.padding;
}

ordered_json rope_scaling(const Rope& rope) {
  if (rope.kind == RopeKind::standard) return nullptr;
  ordered_json section{{"rope_type", name(rope.kind)}, {"factor", rope.factor}};
  if (rope.kind != RopeKind::linear && rope.original_positions > 0)
    section["original_max_position_embeddings"] = rope.original_positions;
  if (rope.attention_factor) section["attention_factor"] = *rope.attention_factor;
  if (rope.kind == RopeKind::llama3) {
    section["low_freq_factor"] = rope.low_frequency_factor;
    section["high_freq_factor"] = rope.high_frequency_factor;
  }
  if (rope.kind == RopeKind::yarn) {
    section["beta_fast"] = rope.beta_fast;
    section["beta_slow"] = rope.beta_slow;
    section["truncate"] = rope.truncate;
    if (rope.mscale) section["mscale"] = *rope.mscale;
    if (rope.mscale_all_dim) section["mscale_all_dim"] = *rope.mscale_all_dim;
  }
  if (rope.kind == RopeKind::longrope) {
    section["short_factor"] = rope.short_factors;
    section["long_factor"] = rope.long_factors;
  }
  return section;
}

void write_window(ordered_json& object, const FamilyRow& family, const ModelConfig& config) {
  if (family.keys.windows == WindowKeys::none) return;
  object["sliding_window"] = config.sliding_window ? ordered_json(*config.sliding_window) : ordered_json(nullptr);
  if (family.keys.windows == WindowKeys::every_layer) return;
  object["use_sliding_window"] = config.sliding_window.has_value();
  if (!config.sliding_window || config.sliding_layers.empty()) return;
  ordered_json types = ordered_json::array();
  for (const bool slides : config.sliding_layers) types.push_back(slides ? "sliding_attention" : "full_attention");
  object["layer_types"] = std::move(types);
}

void write_llama_layout(ordered_json& object, const FamilyRow& family, const ModelConfig& config) {
  object["hidden_size"] = config.hidden;
  object["intermediate_size"] = config.intermediate;
  object["num_hidden_layers"] = config.layers;
  object["num_attention_heads"] = config.heads;
  object["num_key_value_heads"] = config.kv_heads;
  if (family.defaults.head_size > 0 || config.heads * config.head_size != config.hidden)
    object["head_dim"] = config.head_size;
  object["hidden_act"] = name(config.activation);
  object["max_position_embeddings"] = config.positions;
  object["rms_norm_eps"] = config.norm_epsilon;
  object["rope_theta"] = config.rope.theta;
  object["rope_scaling"] = rope_scaling(config.rope);
  object["attention_dropout"] = config.dropout.attention;
  if (family.keys.attention_bias) object["attention_bias"] = config.qkv_bias;
  if (family.keys.mlp_bias) object["mlp_bias"] = config.mlp_bias;
  write_window(object, family, config);
}

void write_gpt2(ordered_json& object, const ModelConfig& config) {
  object["n_embd"] = config.hidden;
  object["n_inner"] = config.intermediate;
  object["n_layer"] = config.layers;
  object["n_head"] = config.heads;
  object["n_positions"] = config.positions;
  object["activation_function"] = name(config.activation);
  object["layer_norm_epsilon"] = config.norm_epsilon;
  object["scale_attn_weights"] = config.scaled_attention;
  object["scale_attn_by_inverse_layer_idx"] = config.attention_scaled_by_layer;
  object["embd_pdrop"] = config.dropout.embedding;
  object["attn_pdrop"] = config.dropout.attention;
  object["resid_pdrop"] = config.dropout.residual;
}

// What the class in transformers cannot express; "" if it can express everything.
std::string unsayable(const FamilyRow& family, const ModelConfig& config) {
  if (family.layout == ModelLayout::gpt2) return {};
  if (config.sliding_window && family.keys.windows == WindowKeys::none) return "a sliding window";
  const ModelConfig& usual = family.defaults;
  const bool bias = config.qkv_bias;
  const bool sayable = family.keys.attention_bias ? bias == config.output_bias
                                                  : bias == usual.qkv_bias && config.output_bias == usual.output_bias;
  if (!sayable)
    return fmt::format("biases of query, key and value {} and of the attention's output {}", bias ? "there" : "missing",
                       config.output_bias ? "there" : "missing");
  if (!family.keys.mlp_bias && config.mlp_bias != usual.mlp_bias) return "biases of the feed-forward blocks";
  return {};
}

}  // namespace

void name_classifier(ordered_json& object, const ModelConfig& config) {
  ordered_json names = ordered_json::object(), numbers = ordered_json::object();
  for (std::int64_t label = 0; label < config.score->outputs; ++label) {
    const std::string name = fmt::format("LABEL_{}", label);
    names[std::to_string(label)] = name;
    numbers[name] = label;
  }
  const std::string name = architecture(row_of(config.family), config.score);
  const bool is_named = object.contains("architectures") && object["architectures"] == ordered_json::array({name});
  if (is_named && object.contains("id2label") && object["id2label"].size() == names.size()) return;
  object["architectures"] = ordered_json::array({name});
  object["id2label"] = std::move(names);
  object["label2id"] = std::move(numbers);
}

Result<std::string> write_model_config(const ModelConfig& config, const TokenIds& tokens) {
  const FamilyRow& family = row_of(config.family);
  if (const std::string what = unsayable(family, config); !what.empty())
    return Error{Error::Kind::refused,
                 fmt::format("a model of the family {} with {} has no config.json that transformers could read",
                             family.name, what),
                 ""};
  ordered_json object{{"architectures", {family.architecture}},
                      {"model_type", family.name},
                      {"vocab_size", config.vocabulary}};
  if (!config.predicts_tokens()) name_classifier(object, config);
  if (family.layout == ModelLayout::gpt2)
    write_gpt2(object, config);
  else
    write_llama_layout(object, family, config);
  object["tie_word_embeddings"] = config.tied;
  if (config.dtype) object["torch_dtype"] = name(*config.dtype);
  write_tokens(object, tokens);
  object["use_cache"] = true;
  return object.dump(2) + "\n";
}

std::string write_generation_config(const TokenIds& tokens) {
  ordered_json object = ordered_json::object();
  write_tokens(object, tokens);
  return object.dump(2) + "\n";
}

}  // namespace muster::spec
