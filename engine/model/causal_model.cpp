#include "model/causal_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/gpt2_block.hpp"
#include "model/rotary_block.hpp"

namespace muster::model {
namespace {

tensor::AttentionShape attention_shape(const spec::ModelConfig& config, std::int64_t layer) {
  tensor::AttentionShape shape{config.heads, config.kv_heads, config.head_size, 1, std::nullopt};
  if (config.scaled_attention) shape.scale = 1 / std::sqrt(static_cast<double>(config.head_size));
  if (config.attention_scaled_by_layer) shape.scale /= static_cast<double>(layer + 1);
  const auto at = static_cast<std::size_t>(layer);
  if (config.sliding_window && (config.sliding_layers.empty() || config.sliding_layers[at]))
    shape.window = config.sliding_window;
  return shape;
}

// held: the layer's number among those of this rank.
std::unique_ptr<Block> declare_rotary(const spec::ModelConfig& config, std::int64_t layer, std::int64_t held,
                                      ParameterLoader& loader) {
  const std::int64_t hidden = config.hidden, intermediate = config.intermediate;
  const std::int64_t query_width = config.query_width(), kv_width = config.kv_width();
  const std::string block = fmt::format("model.layers.{}.", layer);
  const std::string attention = block + "self_attn.", mlp = block + "mlp.";
  RotaryBlockParts parts;
  parts.layer = held;
  parts.shape = attention_shape(config, layer);
  parts.epsilon = config.norm_epsilon;
  parts.activation = config.activation;
  parts.input_norm = loader.norm(block + "input_layernorm", hidden);
  parts.joined = loader.linear(
      {{attention + "q_proj", query_width}, {attention + "k_proj", kv_width}, {attention + "v_proj", kv_width}}, hidden,
      config.qkv_bias);
  if (config.family == spec::Family::qwen3) {
    parts.query_norm = loader.norm(attention + "q_norm", config.head_size);
    parts.key_norm = loader.norm(attention + "k_norm", config.head_size);
  }
  parts.output = loader.linear({{attention + "o_proj", hidden}}, query_width, config.output_bias);
  parts.output_norm = loader.norm(block + "post_attention_layernorm", hidden);
  parts.gate_and_up =
      loader.linear({{mlp + "gate_proj", intermediate}, {mlp + "up_proj", intermediate}}, hidden, config.mlp_bias);
  parts.down = loader.linear({{mlp + "down_proj", hidden}}, intermediate, config.mlp_bias);
  return make_rotary_block(std::move(parts));
}

std::unique_ptr<Block> declare_gpt2(const spec::ModelConfig& config, std::int64_t layer, std::int64_t held,
                                    ParameterLoader& loader) {
  constexpr bool biased = true, transposed = true;
  const std::int64_t hidden = config.hidden, intermediate = config.intermediate;
  const std::string block = fmt::format("transformer.h.{}.", layer);
  Gpt2BlockParts parts;
  parts.layer = held;
  parts.shape = attention_shape(config, layer);
  parts.epsilon = config.norm_epsilon;
  parts.activation = config.activation;
  parts.attention_norm = loader.norm(block + "ln_1", hidden, biased);
  parts.joined = loader.linear({{block + "attn.c_attn", 3 * hidden}}, hidden, biased, transposed);
  parts.output = loader.linear({{block + "attn.c_proj", hidden}}, hidden, biased, transposed);
  parts.feed_forward_norm = loader.norm(block + "ln_2", hidden, biased);
  parts.up = loader.linear({{block + "mlp.c_fc", intermediate}}, hidden, biased, transposed);
  parts.down = loader.linear({{block + "mlp.c_proj", hidden}}, intermediate, biased, transposed);
  return make_gpt2_block(std::move(parts));
}

}  // namespace

CausalModel::CausalModel(const spec::ModelConfig& config, tensor::DeviceOps& ops, LayerRange layers,
                         at::ScalarType type)
    : config_(config), ops_(&ops), layers_(layers), type_(type) {
  if (config.family != spec::Family::gpt2)
    rotary_.emplace(config.rope, config.head_size, config.positions, ops.device);
}

Result<CausalModel> CausalModel::load(const spec::ModelConfig& config, const checkpoint::TensorSource& source,
                                      tensor::DeviceOps& ops, const LoadOptions& options) {
  CausalModel model(config, ops, options.layers.value_or(LayerRange{0, config.layers}), options.type);
  ParameterLoader loader(source, ops, options.type);
  model.declare(loader, options);
  model.parameters_ = loader.parameters();
  if (auto loaded = loader.run(options.threads, options.progress); !loaded) return loaded.error();
  return model;
}

void CausalModel::declare(ParameterLoader& loader, const LoadOptions& options) {
  const bool gpt2 = config_.family == spec::Family::gpt2;
  const std::int64_t hidden = config_.hidden, vocabulary = config_.vocabulary;
  const bool embeds = layers_.first == 0;
  embedding_name_ = gpt2 ? "transformer.wte.weight" : "model.embed_tokens.weight";
  for (const OffloadedParts& parts : options.offloaded) {
    const ParameterVisits visits(*parts.source, *ops_, type_, options.threads);
    if (parts.embedding && embeds) embedding_visits_ = visits;
    if (parts.head && has_head()) head_visits_ = visits;
  }
  is_resident_ = !embedding_visits_ && !head_visits_;
  const bool keeps_head = has_head() && !head_visits_, keeps_embedding = embeds && !embedding_visits_;
  loader.begin_unit(UnitId{0});
  if (keeps_embedding || (keeps_head && config_.tied)) {
    const auto [weight, id] = loader.weight(embedding_name_, vocabulary, hidden);
    embedding_ = weight;
    embedding_id_ = id;
  }
  if (gpt2 && keeps_embedding) {
    const auto [weight, id] = loader.weight("transformer.wpe.weight", config_.positions, hidden);
    positions_ = weight;
    positions_id_ = id;
  }
  declare_blocks(loader, options);
  if (!has_head()) return;
  loader.begin_unit(last_unit());
  final_norm_ = loader.norm(gpt2 ? "transformer.ln_f" : "model.norm", hidden, gpt2);
  if (keeps_head && !config_.tied) {
    const auto [weight, id] = loader.weight("lm_head.weight", vocabulary, hidden);
    head_ = weight;
    head_id_ = id;
  }
}

void CausalModel::declare_blocks(ParameterLoader& loader, const LoadOptions& options) {
  const auto declare = config_.family == spec::Family::gpt2 ? declare_gpt2 : declare_rotary;
  for (std::int64_t layer = layers_.first; layer < layers_.last; ++layer) {
    const std::int64_t held = layer - layers_.first;
    loader.begin_unit(block_unit(static_cast<std::size_t>(held)));
    const auto off = std::ranges::find_if(options.offloaded, [layer](const OffloadedParts& parts) {
      return std::ranges::find(parts.layers, layer) != parts.layers.end();
    });
    if (off == options.offloaded.end()) {
      blocks_.push_back(declare(config_, layer, held, loader));
      continue;
    }
    is_resident_ = false;
    blocks_.push_back(make_offloaded_block(
        [config = config_, declare, layer, held](ParameterLoader& from) { return declare(config, layer, held, from); },
        ParameterVisits(*off->source, *ops_, type_, options.threads)));
  }
}

CacheShape CausalModel::cache_shape(std::int64_t blocks, std::int64_t block_tokens) const {
  return {layers_.last - layers_.first, config_.kv_heads, config_.head_size, blocks, block_tokens, type_,
          ops_->device};
}

Pass CausalModel::prepare(const Batch& batch, KeyValueCache* cache) {
  const PassNumbers numbers(batch, cache == nullptr ? 0 : cache->shape().block_tokens);
  const bool on_gpu = ops_->device.is_cuda();  // which the host need not wait for
  const at::Tensor values = on_gpu ? numbers.values().pin_memory() : numbers.values();
  Pass pass = numbers.pass(values.to(ops_->device, on_gpu), cache);
  if (rotary_) pass.rotary = rotary_->rows(batch, pass.tables.positions);
  return pass;
}

Pass CausalModel::prepare(const PassNumbers& numbers, const at::Tensor& values, KeyValueCache* cache) {
  Pass pass = numbers.pass(values, cache);
  if (rotary_) pass.rotary = rotary_->rows(pass.tables.positions);
  return pass;
}

bool CausalModel::reserve_positions(std::int64_t positions) { return !rotary_ || rotary_->reserve(positions); }

at::Tensor CausalModel::embed(const Pass& pass) {
  home_->begin_pass(PassKind::measure);
  const UnitGuard guard(*home_, UnitId{0});
  return embedded(pass);
}

at::Tensor CausalModel::embedded(const Pass& pass) {
  const bool learnt_positions = config_.family == spec::Family::gpt2;
  if (embedding_visits_) {
    const at::Tensor tokens = embedding_visits_->rows(embedding_name_, pass.tokens, config_.hidden);
    if (!learnt_positions) return tokens;
    return tokens + embedding_visits_->rows("transformer.wpe.weight", pass.tables.positions, config_.hidden);
  }
  const at::Tensor tokens = ops_->primitives->take_rows(embedding_, pass.tokens);
  if (!learnt_positions) return tokens;
  return tokens + ops_->primitives->take_rows(*positions_, pass.tables.positions);
}

at::Tensor CausalModel::forward(const Pass& pass, at::Tensor hidden, ModelTape* tape) {
  if (tape != nullptr) tape->blocks.resize(blocks_.size());
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const UnitGuard guard(*home_, block_unit(i));
    hidden = blocks_[i]->forward(*ops_, pass, hidden, tape == nullptr ? nullptr : &tape->blocks[i]);
  }
  if (tape != nullptr) tape->last_hidden = hidden;
  return hidden;
}

HeadGuard CausalModel::use_head(ParameterAccess& access) const {
  HeadGuard guard{UnitGuard(access, last_unit()), std::nullopt};
  if (config_.tied) guard.embedding.emplace(access, UnitId{0});
  return guard;
}

at::Tensor CausalModel::final_norm(const at::Tensor& hidden) const {
  if (final_norm_.bias.defined())
    return ops_->rows->layer_norm(hidden, final_norm_.weight, final_norm_.bias, config_.norm_epsilon);
  return ops_->rows->rms_norm(hidden, final_norm_.weight, config_.norm_epsilon);
}

at::Tensor CausalModel::logits(const at::Tensor& hidden) {
  if (head_visits_) {
    const tensor::Weight head = head_visits_->bring([this](ParameterLoader& loader) {
      return loader.weight(config_.tied ? embedding_name_ : "lm_head.weight", config_.vocabulary, config_.hidden)
          .weight;
    });
    return ops_->primitives->linear(head, {}, final_norm(hidden));
  }
  return ops_->primitives->linear(head(), {}, final_norm(hidden));
}

}  // namespace muster::model
