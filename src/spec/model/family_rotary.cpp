#include <fmt/format.h>

#include "spec/model/family_shape.hpp"

namespace muster::spec {
namespace {

// transformers' classes of one family: "Llama" → "LlamaDecoderLayer".
struct ClassNames {
  explicit ClassNames(std::string_view prefix)
      : head_model(fmt::format("{}ForCausalLM", prefix)),
        model(fmt::format("{}Model", prefix)),
        layer(fmt::format("{}DecoderLayer", prefix)),
        attention(fmt::format("{}Attention", prefix)),
        feed_forward(fmt::format("{}MLP", prefix)),
        norm(fmt::format("{}RMSNorm", prefix)),
        rotary(fmt::format("{}RotaryEmbedding", prefix)) {}

  std::string head_model, model, layer, attention, feed_forward, norm, rotary;
};

std::string_view class_prefix(Family family) {
  switch (family) {
    case Family::mistral:
      return "Mistral";
    case Family::qwen2:
      return "Qwen2";
    case Family::qwen3:
      return "Qwen3";
    case Family::llama:
    case Family::gpt2:
      break;
  }
  return "Llama";
}

class RotaryShape {
 public:
  RotaryShape(const ModelConfig& config, ElementType dtype)
      : config_(config), dtype_(dtype), classes_(class_prefix(config.family)) {}

  ModelShape build() {
    const auto layers = static_cast<std::size_t>(config_.layers);
    builder_.reserve(8 + 15 * layers, 8 + 16 * layers);  // for a block with every norm and bias
    builder_.open("", classes_.head_model);
    builder_.open("model", classes_.model);
    if (config_.remainder > 0) add("remainder", {config_.remainder});
    builder_.open("embed_tokens", "Embedding");
    const TensorId embedding = add("weight", {config_.vocabulary, config_.hidden});
    builder_.close();
    builder_.open("layers", "ModuleList");
    for (std::int64_t i = 0; i < config_.layers; ++i) add_layer(std::to_string(i));
    builder_.close();
    add_norm("norm", config_.hidden);
    add_rotary_embedding();
    builder_.close();
    builder_.open("lm_head", "Linear");
    if (config_.tied)
      builder_.tie("weight", embedding);
    else
      add("weight", {config_.vocabulary, config_.hidden});
    builder_.close();
    builder_.close();
    return builder_.finish({classes_.layer});
  }

 private:
  TensorId add(std::string name, std::initializer_list<std::int64_t> sizes) {
    return builder_.add(std::move(name), sizes, TensorKind::parameter, dtype_);
  }

  void add_linear(std::string name, std::int64_t inputs, std::int64_t outputs, bool bias) {
    builder_.open(std::move(name), "Linear");
    add("weight", {outputs, inputs});
    if (bias) add("bias", {outputs});
    builder_.close();
  }

  void add_norm(std::string name, std::int64_t width) {
    builder_.open(std::move(name), classes_.norm);
    add("weight", {width});
    builder_.close();
  }

  void add_layer(std::string name) {
    builder_.open(std::move(name), classes_.layer);
    add_attention();
    builder_.open("mlp", classes_.feed_forward);
    add_linear("gate_proj", config_.hidden, config_.intermediate, config_.mlp_bias);
    add_linear("up_proj", config_.hidden, config_.intermediate, config_.mlp_bias);
    add_linear("down_proj", config_.intermediate, config_.hidden, config_.mlp_bias);
    builder_.open("act_fn", std::string(class_name(config_.activation)));
    builder_.close();
    builder_.close();
    add_norm("input_layernorm", config_.hidden);
    add_norm("post_attention_layernorm", config_.hidden);
    builder_.close();
  }

  void add_attention() {
    builder_.open("self_attn", classes_.attention);
    add_linear("q_proj", config_.hidden, config_.query_width(), config_.qkv_bias);
    add_linear("k_proj", config_.hidden, config_.kv_width(), config_.qkv_bias);
    add_linear("v_proj", config_.hidden, config_.kv_width(), config_.qkv_bias);
    add_linear("o_proj", config_.query_width(), config_.hidden, config_.output_bias);
    if (config_.family == Family::qwen3) {
      add_norm("q_norm", config_.head_size);
      add_norm("k_norm", config_.head_size);
    }
    builder_.close();
  }

  // The frequencies stay in float32, whatever the weights are.
  void add_rotary_embedding() {
    const std::int64_t frequencies = config_.head_size / 2;
    builder_.open("rotary_emb", classes_.rotary);
    builder_.add("inv_freq", {frequencies}, TensorKind::derived, ElementType::float32);
    builder_.add("original_inv_freq", {frequencies}, TensorKind::derived, ElementType::float32);
    builder_.close();
  }

  const ModelConfig& config_;
  ElementType dtype_;
  ClassNames classes_;
  ShapeBuilder builder_;
};

}  // namespace

ModelShape build_rotary_shape(const ModelConfig& config, ElementType dtype) {
  return RotaryShape(config, dtype).build();
}

}  // namespace muster::spec
