#include "train/objective_pass.hpp"

#include "train/head_pass.hpp"

namespace muster::train {
namespace {

model::Batch model_batch(const data::MicroBatch& batch) {
  model::Batch made;
  made.tokens = batch.tokens;
  for (const std::int64_t rows : batch.parts) made.parts.push_back({rows, 0, rows});
  return made;
}

}  // namespace

at::Tensor ObjectivePass::no_sums() const {
  return at::zeros({std::ssize(objective_->metrics()) * loss_parts},
                   at::TensorOptions().dtype(at::kLong).device(ops_.device));
}

at::Tensor ObjectivePass::sums_of(const TrainedRows& rows) const {
  std::vector<at::Tensor> sums;
  for (const at::Tensor& terms : objective_->measure(rows)) sums.push_back(exact_sum(terms));
  return sums.size() == 1 ? sums.front() : at::cat(sums);
}

at::Tensor ObjectivePass::learn(const data::MicroBatch& batch, const PassOptions& options,
                                model::ParameterAccess& access) {
  access.begin_pass(model::PassKind::learn);
  const model::Pass pass = model_.prepare(model_batch(batch), nullptr);
  model::ModelTape tape;
  tape.recompute = options.recompute;
  const at::Tensor hidden = model_.forward(pass, tape, access);
  TrainedRows rows{batch, ops_.device, {}};
  at::Tensor gradient;
  {
    const model::HeadGuard guard = model_.use_head(access);
    HeadPass head(batch, hidden, model_, ops_, pinned_, objective_->temperature());
    if (objective_->weighs_by_probability()) rows.log_probabilities = head.log_probabilities();
    HeadPass::Backward found = head.backward(objective_->weigh(rows) * options.gradient_scale, access);
    rows.log_probabilities = std::move(found.log_probabilities);
    gradient = model_.final_norm_backward(tape, found.normed_gradient, access);
  }
  model_.backward(pass, tape, std::move(gradient), access);
  return sums_of(rows);
}

at::Tensor ObjectivePass::measure(const data::MicroBatch& batch) {
  const model::Pass pass = model_.prepare(model_batch(batch), nullptr);
  const at::Tensor hidden = model_.forward(pass, model_.embed(pass));
  const model::HeadGuard guard = model_.use_head();
  HeadPass head(batch, hidden, model_, ops_, pinned_, objective_->temperature());
  return sums_of({batch, ops_.device, head.log_probabilities()});
}

}  // namespace muster::train
