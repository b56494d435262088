#include "spec/model/families.hpp"
#include "spec/model/model_layouts.hpp"

namespace muster::spec {
namespace {

class Gpt2Layout {
 public:
  Gpt2Layout(const ModelConfig& config, ElementType dtype) : config_(config), dtype_(dtype) {}

  ModelShape build() {
    const auto layers = static_cast<std::size_t>(config_.layers);
    builder_.reserve(8 + 13 * layers, 8 + 12 * layers);
    builder_.open("", architecture(row_of(config_.family), config_.score));
    builder_.open("transformer", "GPT2Model");
    const TensorId embedding = add_embedding("wte", TensorRole::embedding, config_.vocabulary);
    add_embedding("wpe", TensorRole::position_embedding, config_.positions);
    add_empty("drop", "Dropout");
    builder_.open("h", "ModuleList");
    for (std::int64_t i = 0; i < config_.layers; ++i) add_block(std::to_string(i));
    builder_.close();
    add_norm("ln_f", TensorRole::final_norm);
    builder_.close();
    const bool of_tokens = config_.score && config_.score->use == ScoreUse::tokens;
    add_heads(builder_, config_, dtype_, embedding, of_tokens ? "classifier" : "score");
    builder_.close();
    return builder_.finish({"GPT2Block"});
  }

 private:
  void add_empty(std::string name, std::string class_name) {
    builder_.open(std::move(name), std::move(class_name));
    builder_.close();
  }

  TensorId add_embedding(std::string name, TensorRole role, std::int64_t rows) {
    builder_.open(std::move(name), "Embedding");
    const TensorId weight = builder_.add_weight(role, {rows, config_.hidden}, dtype_);
    builder_.close();
    return weight;
  }

  // transformers' Conv1D: a linear layer whose weight is stored the other way round, inputs first.
  void add_projection(std::string name, TensorRole role, std::int64_t inputs, std::int64_t outputs) {
    builder_.open(std::move(name), "Conv1D");
    builder_.add_weight(role, {inputs, outputs}, dtype_);
    builder_.add_bias(role, outputs, dtype_);
    builder_.close();
  }

  void add_norm(std::string name, TensorRole role) {
    builder_.open(std::move(name), "LayerNorm");
    builder_.add_weight(role, {config_.hidden}, dtype_);
    builder_.add_bias(role, config_.hidden, dtype_);
    builder_.close();
  }

  void add_block(std::string name) {
    using enum TensorRole;
    builder_.open_layer(std::move(name), "GPT2Block");
    add_norm("ln_1", attention_norm);
    builder_.open("attn", "GPT2Attention");
    add_projection("c_attn", query_key_value, config_.hidden, 3 * config_.hidden);
    add_projection("c_proj", attention_output, config_.hidden, config_.hidden);
    add_empty("attn_dropout", "Dropout");
    add_empty("resid_dropout", "Dropout");
    builder_.close();
    add_norm("ln_2", feed_forward_norm);
    builder_.open("mlp", "GPT2MLP");
    add_projection("c_fc", up, config_.hidden, config_.intermediate);
    add_projection("c_proj", down, config_.intermediate, config_.hidden);
    add_empty("act", std::string(class_name(config_.activation)));
    add_empty("dropout", "Dropout");
    builder_.close();
    builder_.close();
  }

  const ModelConfig& config_;
  ElementType dtype_;
  ShapeBuilder builder_;
};

}  // namespace

ModelShape build_gpt2_shape(const ModelConfig& config, ElementType dtype) { return Gpt2Layout(config, dtype).build(); }

}  // namespace muster::spec
