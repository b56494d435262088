// What a CausalModel computes only where it is trained.
#include "model/causal_model.hpp"

#include <set>
#include <string_view>

#include "tensor/row_norms.hpp"

namespace muster::model {
namespace {

// Where a parameter's numbers lie on its device.
at::Tensor storage_of(const Parameter& parameter) {
  return parameter.columns ? parameter.weight.storage : parameter.vector;
}

}  // namespace

CausalModel CausalModel::unfilled(const spec::ModelConfig& config, tensor::DeviceOps& ops, at::ScalarType type,
                                  Memory memory, const WeightForms& forms) {
  CausalModel model(config, ops, {0, config.layers}, type, forms);
  ParameterList list(ops, type, *model.forms_, memory, Memory::later);
  model.declare(list, {});
  model.parameters_ = list.parameters();
  model.changes_ = list.changes();
  return model;
}

std::vector<at::Tensor> CausalModel::frozen_storages(UnitId unit) const {
  std::vector<at::Tensor> storages;
  for (const Parameter& parameter : parameters_)
    if (parameter.unit == unit && !parameter.trained) storages.push_back(storage_of(parameter));
  return storages;
}

void CausalModel::provide_frozen(UnitId unit) {
  for (const Parameter& parameter : parameters_) {
    if (parameter.unit != unit || parameter.trained) continue;
    at::Tensor storage = storage_of(parameter);
    if (parameter.columns)
      storage.set_(ops_->primitives->new_weight(parameter.rows, *parameter.columns, parameter.weight.form()).storage);
    else
      storage.set_(at::empty({parameter.rows}, storage.options()));
  }
}

Result<void> CausalModel::read_frozen(UnitId unit, const checkpoint::TensorSource& source, int threads) {
  std::vector<Parameter> frozen;
  for (const Parameter& parameter : parameters_)
    if (parameter.unit == unit && !parameter.trained) frozen.push_back(parameter);
  return read_parameters(frozen, source, *ops_, threads, {});
}

void CausalModel::measure_rows(UnitId unit, RowLengths& lengths) const {
  std::set<std::string_view> magnitudes;
  for (const Parameter& parameter : parameters_)
    if (parameter.unit == unit && parameter.trained && !parameter.columns)
      for (const Parameter::Piece& piece : parameter.pieces) magnitudes.insert(piece.name);
  for (const Parameter& parameter : parameters_) {
    if (parameter.unit != unit || parameter.trained || !parameter.columns) continue;
    std::int64_t first = 0;
    for (const auto& [name, rows] : parameter.pieces) {
      if (const std::string magnitude = adapter_names(name, 0).magnitude; magnitudes.contains(magnitude))
        lengths[magnitude] = tensor::row_norms(*ops_->primitives, parameter.weight, first, rows).cpu();
      first += rows;
    }
  }
}

void CausalModel::assign(ParameterId id, const at::Tensor& values) {
  const Parameter& parameter = parameters_.at(static_cast<std::size_t>(id));
  ++*changes_;
  if (parameter.columns)
    ops_->training->assign(parameter.weight, values);
  else
    parameter.vector.copy_(values);
}

void CausalModel::adopt(ParameterId id, const at::Tensor& values) {
  const Parameter& parameter = parameters_.at(static_cast<std::size_t>(id));
  ++*changes_;
  if (parameter.columns) {
    ops_->training->adopt(parameter.weight, values.to(parameter.weight.type));
    return;
  }
  const at::Tensor typed = values.to(parameter.vector.scalar_type());
  parameter.vector.set_(ops_->training->has_plain_weights() || !typed.is_same(values) ? typed : values.clone());
}

at::Tensor CausalModel::forward(const Pass& pass, ModelTape& tape, ParameterAccess& access) {
  at::Tensor hidden;
  {
    const UnitGuard guard(access, UnitId{0});
    hidden = embedded(pass);
  }
  tape.blocks.resize(blocks_.size());
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const UnitGuard guard(access, block_unit(i));
    Tape& kept = tape.blocks[i];
    at::Tensor output = blocks_[i]->forward(*ops_, pass, hidden, &kept);
    if (tape.recompute == Recompute::cheap) blocks_[i]->thin(kept);
    if (tape.recompute == Recompute::blocks) kept = {{hidden}, {}};
    hidden = std::move(output);
  }
  tape.last_hidden = hidden;
  return hidden;
}

at::Tensor CausalModel::head_logits(const at::Tensor& normed) const {
  return ops_->primitives->linear(head(), {}, normed);
}

at::Tensor CausalModel::head_backward(const at::Tensor& normed, const at::Tensor& logits_gradient,
                                      std::span<const std::int64_t> sequence_rows, ParameterAccess& access) const {
  const ParameterId id = config_.tied ? embedding_id_ : head_id_;
  if (const auto sum = access.gradient(id); sum.wanted())
    ops_->training->add_product(sum, logits_gradient, normed, sequence_rows);
  return ops_->primitives->linear_input_gradient(head(), logits_gradient);
}

at::Tensor CausalModel::head_scores(const at::Tensor& normed) const {
  return ops_->primitives->linear(score_.weight, score_.bias, normed);
}

at::Tensor CausalModel::score_backward(const at::Tensor& normed, const at::Tensor& scores_gradient,
                                       std::span<const std::int64_t> sequence_rows, ParameterAccess& access) const {
  if (const auto sum = access.gradient(score_.weight_id); sum.wanted())
    ops_->training->add_product(sum, scores_gradient, normed, sequence_rows);
  if (score_.bias.defined())
    if (const auto sum = access.gradient(score_.bias_id); sum.wanted())
      ops_->training->add_rows(sum, scores_gradient);
  return ops_->primitives->linear_input_gradient(score_.weight, scores_gradient);
}

at::Tensor CausalModel::final_norm_backward(ModelTape& tape, const at::Tensor& normed_gradient,
                                            ParameterAccess& access) const {
  const at::Tensor hidden = std::move(tape.last_hidden);
  const at::Tensor gradient =
      final_norm_.backward(*ops_, hidden, config_.norm_epsilon, normed_gradient, {}, access);
  access.gradients_complete(last_unit());
  return gradient;
}

void CausalModel::embed_backward(const Pass& pass, const at::Tensor& gradient, ParameterAccess& access) const {
  tensor::TrainingOps& training = *ops_->training;
  if (const auto sum = access.gradient(embedding_id_); sum.wanted())
    training.add_rows_at(sum, pass.tokens, gradient);
  if (!positions_) return;
  if (const auto sum = access.gradient(positions_id_); sum.wanted())
    training.add_rows_at(sum, pass.tables.positions, gradient);
}

void CausalModel::backward(const Pass& pass, ModelTape& tape, at::Tensor gradient, ParameterAccess& access) {
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    const UnitGuard guard(access, block_unit(i));
    const Block& block = *blocks_[i];
    Tape kept = std::move(tape.blocks[i]);
    if (tape.recompute == Recompute::cheap) block.restore(*ops_, pass, kept);
    if (tape.recompute == Recompute::blocks) {
      const at::Tensor input = kept.tensors.at(0);
      block.forward(*ops_, pass, input, &kept);
    }
    gradient = block.backward(*ops_, pass, kept, gradient, access);
    access.gradients_complete(block_unit(i));
  }
  embed_backward(pass, gradient, access);
  access.gradients_complete(UnitId{0});
  tape.blocks.clear();
}

}  // namespace muster::model
