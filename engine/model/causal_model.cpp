#include "model/causal_model.hpp"

#include <algorithm>
#include <cmath>

#include "model/decoder_block.hpp"
#include "model/parameter_roles.hpp"
#include "tensor/element_types.hpp"

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
std::unique_ptr<Block> declare_block(const spec::ModelConfig& config, const spec::ModelShape& shape, std::int64_t layer,
                                     std::int64_t held, ParameterList& list) {
  using enum spec::TensorRole;
  ParameterRoles roles(list, shape, layer);
  DecoderBlockParts parts;
  parts.layer = held;
  parts.shape = attention_shape(config, layer);
  parts.epsilon = config.norm_epsilon;
  parts.activation = config.activation;
  parts.gated = config.gated;
  parts.attention_norm = roles.norm(attention_norm);
  parts.joined = roles.has(query_key_value) ? roles.linear({query_key_value}) : roles.linear({query, key, value});
  if (config.query_key_norm) {
    parts.query_norm = roles.norm(query_norm);
    parts.key_norm = roles.norm(key_norm);
  }
  parts.output = roles.linear({attention_output});
  parts.feed_forward_norm = roles.norm(feed_forward_norm);
  parts.up = config.gated ? roles.linear({gate, up}) : roles.linear({up});
  parts.down = roles.linear({down});
  return make_decoder_block(std::move(parts));
}

}  // namespace

CausalModel::CausalModel(const spec::ModelConfig& config, tensor::DeviceOps& ops, LayerRange layers,
                         at::ScalarType type, const WeightForms& forms)
    : config_(config),
      shape_(std::make_shared<const spec::ModelShape>(spec::build_shape(config, tensor::from_torch(type)))),
      ops_(&ops),
      layers_(layers),
      type_(type),
      forms_(std::make_shared<const WeightForms>(forms)) {
  if (config.position_kind == spec::PositionKind::rotary)
    rotary_.emplace(config.rope, config.head_size, config.positions, ops.device);
}

Result<CausalModel> CausalModel::load(const spec::ModelConfig& config, const checkpoint::TensorSource& source,
                                      tensor::DeviceOps& ops, const LoadOptions& options) {
  CausalModel model(config, ops, options.layers.value_or(LayerRange{0, config.layers}), options.type, options.forms);
  ParameterList list(ops, options.type, *model.forms_);
  model.declare(list, options);
  model.parameters_ = list.parameters();
  model.changes_ = list.changes();
  auto loaded = read_parameters(model.parameters_, source, ops, options.threads, options.progress);
  if (!loaded) return loaded.error();
  return model;
}

void CausalModel::declare(ParameterList& list, const LoadOptions& options) {
  ParameterRoles roles(list, *shape_);
  const bool embeds = layers_.first == 0;
  for (const OffloadedParts& parts : options.offloaded) {
    const ParameterVisits visits(*parts.source, *ops_, type_, forms_, options.threads);
    if (parts.embedding && embeds) embedding_visits_ = visits;
    if (parts.head && has_head()) head_visits_ = visits;
  }
  is_resident_ = !embedding_visits_ && !head_visits_;
  const bool keeps_head = has_head() && !head_visits_, keeps_embedding = embeds && !embedding_visits_;
  list.begin_unit(UnitId{0});
  if (keeps_embedding || (keeps_head && config_.tied)) {
    const auto [weight, id] = roles.weight(spec::TensorRole::embedding);
    embedding_ = weight;
    embedding_id_ = id;
  }
  if (has_learned_positions() && keeps_embedding) {
    const auto [weight, id] = roles.weight(spec::TensorRole::position_embedding);
    positions_ = weight;
    positions_id_ = id;
  }
  declare_blocks(list, options);
  if (!has_head()) return;
  list.begin_unit(last_unit());
  final_norm_ = roles.norm(spec::TensorRole::final_norm);
  if (keeps_head && !config_.tied && config_.predicts_tokens()) {
    const auto [weight, id] = roles.weight(spec::TensorRole::head);
    head_ = weight;
    head_id_ = id;
  }
  if (config_.score) score_ = roles.linear({spec::TensorRole::score});
}

void CausalModel::declare_blocks(ParameterList& list, const LoadOptions& options) {
  for (std::int64_t layer = layers_.first; layer < layers_.last; ++layer) {
    const std::int64_t held = layer - layers_.first;
    list.begin_unit(block_unit(static_cast<std::size_t>(held)));
    const auto off = std::ranges::find_if(options.offloaded, [layer](const OffloadedParts& parts) {
      return std::ranges::find(parts.layers, layer) != parts.layers.end();
    });
    if (off == options.offloaded.end()) {
      blocks_.push_back(declare_block(config_, *shape_, layer, held, list));
      continue;
    }
    is_resident_ = false;
    blocks_.push_back(make_offloaded_block(
        [config = config_, shape = shape_, layer, held](ParameterList& from) {
          return declare_block(config, *shape, layer, held, from);
        },
        ParameterVisits(*off->source, *ops_, type_, forms_, options.threads)));
  }
}

CacheShape CausalModel::cache_shape(std::int64_t blocks, std::int64_t block_tokens) const {
  return {layers_.last - layers_.first, config_.kv_heads, config_.head_size, blocks, block_tokens, type_,
          ops_->device};
}

Pass CausalModel::prepare(const Batch& batch, KeyValueCache* cache) {
  const PassNumbers numbers(batch, cache == nullptr ? 0 : cache->shape().block_tokens, adapters());
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
  using enum spec::TensorRole;
  if (embedding_visits_) {
    const auto rows = [&](spec::TensorRole role, const at::Tensor& indices) {
      return embedding_visits_->rows(shape_->path(shape_->find(role, {}).value()), indices, config_.hidden);
    };
    const at::Tensor tokens = rows(embedding, pass.tokens);
    return has_learned_positions() ? tokens + rows(position_embedding, pass.tables.positions) : tokens;
  }
  const at::Tensor tokens = ops_->primitives->take_rows(embedding_, pass.tokens);
  if (!has_learned_positions()) return tokens;
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
  return final_norm_.forward(*ops_, hidden, config_.norm_epsilon);
}

at::Tensor CausalModel::logits(const at::Tensor& hidden) {
  if (head_visits_) {
    const tensor::Weight head = head_visits_->bring([this](ParameterList& list) {
      return ParameterRoles(list, *shape_).weight(head_role()).weight;
    });
    return ops_->primitives->linear(head, {}, final_norm(hidden));
  }
  return ops_->primitives->linear(head(), {}, final_norm(hidden));
}

}  // namespace muster::model
