#include <fmt/format.h>

#include "spec/model/families.hpp"
#include "spec/model/model_layouts.hpp"

namespace muster::spec {
namespace {

// transformers' classes of one family: "Llama" → "LlamaDecoderLayer".
struct ClassNames {
  explicit ClassNames(std::string_view prefix)
      : model(fmt::format("{}Model", prefix)),
        layer(fmt::format("{}DecoderLayer", prefix)),
        attention(fmt::format("{}Attention", prefix)),
        feed_forward(fmt::format("{}MLP", prefix)),
        norm(fmt::format("{}RMSNorm", prefix)),
        rotary(fmt::format("{}RotaryEmbedding", prefix)) {}

  std::string model, layer, attention, feed_forward, norm, rotary;
};

class LlamaLayout {
 public:
  LlamaLayout(const ModelConfig& config, ElementType dtype)
      : config_(config), dtype_(dtype), classes_(row_of(config.family).class_prefix) {}

  ModelShape build() {
    const auto layers = static_cast<std::size_t>(config_.layers);
    builder_.reserve(8 + 15 * layers, 8 + 16 * layers);  // for a block with every norm and bias
    builder_.open("", architecture(row_of(config_.family), config_.score));
    builder_.open("model", classes_.model);
    if (config_.remainder > 0) builder_.add("remainder", {config_.remainder}, TensorKind::parameter, dtype_);
    builder_.open("embed_tokens", "Embedding");
    const TensorId embedding = add_weight(TensorRole::embedding, {config_.vocabulary, config_.hidden});
    builder_.close();
    builder_.open("layers", "ModuleList");
    for (std::int64_t i = 0; i < config_.layers; ++i) add_layer(std::to_string(i));
    builder_.close();
    add_norm("norm", TensorRole::final_norm, config_.hidden);
    add_rotary_embedding();
    builder_.close();
    add_heads(builder_, config_, dtype_, embedding, "score");
    builder_.close();
    return builder_.finish({classes_.layer});
  }

 private:
  TensorId add_weight(TensorRole role, std::initializer_list<std::int64_t> sizes) {
    return builder_.add_weight(role, sizes, dtype_);
  }

  void add_linear(std::string name, TensorRole role, std::int64_t inputs, std::int64_t outputs, bool bias) {
    builder_.open(std::move(name), "Linear");
    add_weight(role, {outputs, inputs});
    if (bias) builder_.add_bias(role, outputs, dtype_);
    builder_.close();
  }

  void add_norm(std::string name, TensorRole role, std::int64_t width) {
    builder_.open(std::move(name), classes_.norm);
    add_weight(role, {width});
    builder_.close();
  }

  void add_layer(std::string name) {
    using enum TensorRole;
    builder_.open_layer(std::move(name), classes_.layer);
    add_attention();
    builder_.open("mlp", classes_.feed_forward);
    if (config_.gated) add_linear("gate_proj", gate, config_.hidden, config_.intermediate, config_.mlp_bias);
    add_linear("up_proj", up, config_.hidden, config_.intermediate, config_.mlp_bias);
    add_linear("down_proj", down, config_.intermediate, config_.hidden, config_.mlp_bias);
    builder_.open("act_fn", std::string(class_name(config_.activation)));
    builder_.close();
    builder_.close();
    add_norm("input_layernorm", attention_norm, config_.hidden);
    add_norm("post_attention_layernorm", feed_forward_norm, config_.hidden);
    builder_.close();
  }

  void add_attention() {
    using enum TensorRole;
    builder_.open("self_attn", classes_.attention);
    add_linear("q_proj", query, config_.hidden, config_.query_width(), config_.qkv_bias);
    add_linear("k_proj", key, config_.hidden, config_.kv_width(), config_.qkv_bias);
    add_linear("v_proj", value, config_.hidden, config_.kv_width(), config_.qkv_bias);
    add_linear("o_proj", attention_output, config_.query_width(), config_.hidden, config_.output_bias);
    if (config_.query_key_norm) {
      add_norm("q_norm", query_norm, config_.head_size);
      add_norm("k_norm", key_norm, config_.head_size);
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

ModelShape build_llama_shape(const ModelConfig& config, ElementType dtype) {
  return LlamaLayout(config, dtype).build();
}

}  // namespace muster::spec
