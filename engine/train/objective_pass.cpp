#include "train/objective_pass.hpp"

#include <limits>
#include <utility>

#include "base/bit_mix.hpp"
#include "train/head_pass.hpp"

namespace muster::train {
namespace {

model::Batch model_batch(const data::MicroBatch& batch) {
  model::Batch made;
  made.tokens = batch.tokens;
  for (const std::int64_t rows : batch.parts) {
    model::SequencePart& part = made.parts.emplace_back(model::SequencePart{rows, 0, rows});
    if (batch.without_adapters) part.adapter = -1;
  }
  return made;
}

// [rows], on the host.
at::Tensor row_keys(const data::MicroBatch& batch, std::uint64_t seed) {
  constexpr std::uint64_t spread = 0x9e3779b97f4a7c15u;
  at::Tensor keys = at::empty({batch.rows()}, at::kLong);
  auto* key = keys.mutable_data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < batch.parts.size(); ++i) {
    const std::uint64_t sample = mix_bits(seed + static_cast<std::uint64_t>(batch.samples[i] + 1) * spread);
    for (std::int64_t row = 0; row < batch.parts[i]; ++row)
      *key++ = static_cast<std::int64_t>(mix_bits(sample + static_cast<std::uint64_t>(row + 1) * spread));
  }
  return keys;
}

}  // namespace

at::Tensor ObjectivePass::no_sums() const {
  return at::zeros({summed_metrics() * loss_parts}, at::TensorOptions().dtype(at::kLong).device(ops_.device));
}

at::Tensor ObjectivePass::take_extremes() {
  const auto none = at::full({std::ssize(objective_->extremes())}, -std::numeric_limits<float>::infinity(),
                             at::TensorOptions().dtype(at::kFloat).device(ops_.device));
  return extremes_.defined() ? std::exchange(extremes_, {}) : none;
}

at::Tensor ObjectivePass::sums_of(const TrainedRows& rows) {
  const std::vector<at::Tensor> terms = objective_->measure(rows);
  const auto summed = static_cast<std::size_t>(summed_metrics());
  std::vector<at::Tensor> sums, extremes;
  for (std::size_t i = 0; i < summed; ++i) sums.push_back(exact_sum(terms[i]));
  for (std::size_t i = summed; i < terms.size(); ++i) {
    const bool is_least = objective_->extremes()[i - summed] == Extreme::least;
    extremes.push_back(is_least ? terms[i].neg().max() : terms[i].max());
  }
  if (!extremes.empty()) {
    const at::Tensor found = at::stack(extremes);
    extremes_ = extremes_.defined() ? at::maximum(extremes_, found) : found;
  }
  return sums.size() == 1 ? sums.front() : at::cat(sums);
}

at::Tensor ObjectivePass::learn(const data::MicroBatch& batch, const PassOptions& options,
                                model::ParameterAccess& access) {
  access.begin_pass(model::PassKind::learn);
  model::Pass pass = model_.prepare(model_batch(batch), nullptr);
  if (const auto [share, seed] = options.dropout; share > 0)
    pass.dropout = model::PassDropout{share, row_keys(batch, seed).to(ops_.device)};
  model::ModelTape tape;
  tape.recompute = options.recompute;
  const at::Tensor hidden = model_.forward(pass, tape, access);
  TrainedRows rows{batch, ops_.device, options.step, {}, {}};
  at::Tensor gradient;
  {
    const model::HeadGuard guard = model_.use_head(access);
    HeadPass head(batch, hidden, model_, ops_, pinned_, objective_->temperature());
    if (objective_->reads_scores()) rows.scores = head.scores();
    if (objective_->weighs_by_probability(options.step)) rows.log_probabilities = head.log_probabilities();
    HeadPass::Weights weights;
    if (objective_->reads_tokens()) weights.tokens = objective_->weigh(rows) * options.gradient_scale;
    if (const at::Tensor entropies = objective_->weigh_entropies(rows); entropies.defined())
      weights.entropies = entropies * options.gradient_scale;
    if (objective_->reads_scores()) weights.scores = objective_->weigh_scores(rows) * options.gradient_scale;
    HeadPass::Backward found = head.backward(weights, access);
    rows.log_probabilities = std::move(found.log_probabilities);
    rows.entropies = std::move(found.entropies);
    gradient = model_.final_norm_backward(tape, found.normed_gradient, access);
  }
  model_.backward(pass, tape, std::move(gradient), access);
  return sums_of(rows);
}

at::Tensor ObjectivePass::measure(const data::MicroBatch& batch, const StepFacts& step) {
  return sums_of(read(batch, step));
}

at::Tensor ObjectivePass::score(const data::MicroBatch& batch, const StepFacts& step) {
  return exact_sum(objective_->score(read(batch, step)));
}

at::Tensor ObjectivePass::hidden_of(const data::MicroBatch& batch) {
  const model::Pass pass = model_.prepare(model_batch(batch), nullptr);
  return model_.forward(pass, model_.embed(pass));
}

TrainedRows ObjectivePass::read(const data::MicroBatch& batch, const StepFacts& step) {
  TrainedRows rows{batch, ops_.device, step, {}, {}};
  const at::Tensor hidden = hidden_of(batch);
  const model::HeadGuard guard = model_.use_head();
  HeadPass head(batch, hidden, model_, ops_, pinned_, objective_->temperature());
  if (objective_->reads_tokens()) rows.log_probabilities = head.log_probabilities();
  if (objective_->reads_scores()) rows.scores = head.scores();
  return rows;
}

at::Tensor ObjectivePass::log_probabilities(const data::MicroBatch& batch) {
  const at::Tensor hidden = hidden_of(batch);
  const model::HeadGuard guard = model_.use_head();
  return HeadPass(batch, hidden, model_, ops_, pinned_, objective_->temperature()).log_probabilities();
}

at::Tensor ObjectivePass::scores(const data::MicroBatch& batch) {
  const at::Tensor hidden = hidden_of(batch);
  const model::HeadGuard guard = model_.use_head();
  return HeadPass(batch, hidden, model_, ops_, pinned_, objective_->temperature()).scores();
}

}  // namespace muster::train
