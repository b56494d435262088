#include "train/objective_pass.hpp"

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
  model::Pass pass = model_.prepare(model_batch(batch), nullptr);
  if (const auto [share, seed] = options.dropout; share > 0)
    pass.dropout = model::PassDropout{share, row_keys(batch, seed).to(ops_.device)};
  model::ModelTape tape;
  tape.recompute = options.recompute;
  const at::Tensor hidden = model_.forward(pass, tape, access);
  TrainedRows rows{batch, ops_.device, options.step, {}};
  at::Tensor gradient;
  {
    const model::HeadGuard guard = model_.use_head(access);
    HeadPass head(batch, hidden, model_, ops_, pinned_, objective_->temperature());
    if (objective_->weighs_by_probability(options.step)) rows.log_probabilities = head.log_probabilities();
    HeadPass::Backward found = head.backward(objective_->weigh(rows) * options.gradient_scale, access);
    rows.log_probabilities = std::move(found.log_probabilities);
    gradient = model_.final_norm_backward(tape, found.normed_gradient, access);
  }
  model_.backward(pass, tape, std::move(gradient), access);
  return sums_of(rows);
}

at::Tensor ObjectivePass::measure(const data::MicroBatch& batch, const StepFacts& step) {
  return sums_of({batch, ops_.device, step, log_probabilities(batch)});
}

at::Tensor ObjectivePass::score(const data::MicroBatch& batch, const StepFacts& step) {
  return exact_sum(objective_->score({batch, ops_.device, step, log_probabilities(batch)}));
}

at::Tensor ObjectivePass::log_probabilities(const data::MicroBatch& batch) {
  const model::Pass pass = model_.prepare(model_batch(batch), nullptr);
  const at::Tensor hidden = model_.forward(pass, model_.embed(pass));
  const model::HeadGuard guard = model_.use_head();
  HeadPass head(batch, hidden, model_, ops_, pinned_, objective_->temperature());
  return head.log_probabilities();
}

}  // namespace muster::train
