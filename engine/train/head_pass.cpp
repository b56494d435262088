#include "train/head_pass.hpp"

#include <algorithm>

namespace muster::train {
namespace {

constexpr std::int64_t rows_at_once_on_gpu = 2048, rows_at_once_on_cpu = 256;

std::vector<std::int64_t> trained_per_sequence(const data::MicroBatch& batch) {
  std::vector<std::int64_t> trained;
  std::size_t at = 0;
  std::int64_t end = 0;
  for (const std::int64_t rows : batch.parts) {
    end += rows;
    std::int64_t count = 0;
    for (; at < batch.trained_rows.size() && batch.trained_rows[at] < end; ++at) ++count;
    trained.push_back(count);
  }
  return trained;
}

}  // namespace

HeadPass::HeadPass(const data::MicroBatch& batch, const at::Tensor& hidden, model::CausalModel& model,
                   tensor::DeviceOps& ops, bool pinned, double temperature)
    : hidden_(hidden),
      model_(model),
      ops_(ops),
      temperature_(temperature),
      rows_(bring(batch.trained_rows, pinned)),
      targets_(bring(batch.targets, pinned)),
      normed_(model.final_norm(hidden.index_select(0, rows_))),
      parts_(cut(batch, ops.device.is_cuda() ? rows_at_once_on_gpu : rows_at_once_on_cpu)) {}

at::Tensor HeadPass::bring(const std::vector<std::int64_t>& values, bool pinned) const {
  const at::Tensor host = at::tensor(values, at::kLong);
  const bool from_pinned = pinned && ops_.device.is_cuda();
  return (from_pinned ? host.pin_memory() : host).to(ops_.device, from_pinned);
}

std::vector<HeadPass::Part> HeadPass::cut(const data::MicroBatch& batch, std::int64_t size) {
  std::vector<Part> all;
  std::int64_t next = 0;
  for (const std::int64_t rows : trained_per_sequence(batch))
    for (std::int64_t done = 0; done < rows; done += size) {
      const std::int64_t count = std::min(size, rows - done);
      if (all.empty() || all.back().count + count > size) all.push_back({next, 0, {}});
      all.back().count += count;
      all.back().pieces.push_back(count);
      next += count;
    }
  return all;
}

at::Tensor HeadPass::log_probabilities() {
  std::vector<at::Tensor> losses;
  for (const Part& part : parts_) {
    const at::Tensor logits = model_.head_logits(normed_.narrow(0, part.first, part.count));
    losses.push_back(ops_.training->cross_entropy(logits, targets_.narrow(0, part.first, part.count), temperature_));
  }
  return at::cat(losses).neg_();
}

at::Tensor HeadPass::scores() { return model_.head_scores(normed_).to(at::kFloat); }

HeadPass::Backward HeadPass::backward(const Weights& weights, model::ParameterAccess& access) {
  at::Tensor normed_gradient = at::empty_like(normed_);
  std::vector<at::Tensor> losses, entropies;
  for (const Part& part : parts_) {
    const auto rows_of = [&part](const at::Tensor& all) { return all.narrow(0, part.first, part.count); };
    const at::Tensor normed = rows_of(normed_), gradient = rows_of(normed_gradient);
    if (weights.tokens.defined()) {
      at::Tensor logits = model_.head_logits(normed);
      if (weights.entropies.defined()) {
        auto found = ops_.training->cross_entropy(logits, rows_of(targets_), rows_of(weights.tokens),
                                                  rows_of(weights.entropies), temperature_);
        losses.push_back(std::move(found.losses));
        entropies.push_back(std::move(found.entropies));
      } else {
        losses.push_back(
            ops_.training->cross_entropy(logits, rows_of(targets_), rows_of(weights.tokens), temperature_));
      }
      gradient.copy_(model_.head_backward(normed, logits, part.pieces, access));
    }
    if (!weights.scores.defined()) continue;
    const at::Tensor of_scores = rows_of(weights.scores).to(normed.scalar_type());
    const at::Tensor through = model_.score_backward(normed, of_scores, part.pieces, access);
    weights.tokens.defined() ? gradient.add_(through) : gradient.copy_(through);
  }
  at::Tensor gradient = at::zeros_like(hidden_);
  gradient.index_copy_(0, rows_, normed_gradient);
  return {losses.empty() ? at::Tensor() : at::cat(losses).neg_(), entropies.empty() ? at::Tensor() : at::cat(entropies),
          std::move(gradient)};
}

}  // namespace muster::train
