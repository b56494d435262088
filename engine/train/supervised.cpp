// Supervised training. The logits of all rows are never there at once.
//
// Note [Rows of the head]
// Rows that are trained on are cut, sequence by sequence, into pieces of a fixed size from the sequence's first one,
// and the head takes as many pieces at a time as make about that size. What an exact sum takes as one term follows from
// the sequence alone.
#include "train/exact_loss.hpp"
#include "train/objective.hpp"

namespace muster::train {
namespace {

// Pieces that go through the head together.
struct HeadRows {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::vector<std::int64_t> pieces;  // rows of each
};

// trained: how many rows of each sequence are trained on.
std::vector<HeadRows> cut_for_head(const std::vector<std::int64_t>& trained, std::int64_t size) {
  std::vector<HeadRows> all;
  std::int64_t next = 0;
  for (const std::int64_t rows : trained)
    for (std::int64_t done = 0; done < rows; done += size) {
      const std::int64_t count = std::min(size, rows - done);
      if (all.empty() || all.back().count + count > size) all.push_back({next, 0, {}});
      all.back().count += count;
      all.back().pieces.push_back(count);
      next += count;
    }
  return all;
}

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

model::Batch model_batch(const data::MicroBatch& batch) {
  model::Batch made;
  made.tokens = batch.tokens;
  for (const std::int64_t rows : batch.parts) made.parts.push_back({rows, 0, rows});
  return made;
}

class Supervised final : public Objective {
 public:
  Supervised(model::CausalModel& model, tensor::DeviceOps& ops, bool pinned)
      : model_(model),
        ops_(ops),
        pinned_(pinned && ops.device.is_cuda()),
        head_rows_(ops.device.is_cuda() ? 2048 : 256) {}

  at::Tensor learn(const data::MicroBatch& batch, const PassOptions& options, model::ParameterAccess& access) override {
    access.begin_pass(model::PassKind::learn);
    const model::Pass pass = model_.prepare(model_batch(batch), nullptr);
    model::ModelTape tape;
    tape.recompute = options.recompute;
    const at::Tensor hidden = model_.forward(pass, tape, access);
    const Targets targets = place(batch);
    std::vector<at::Tensor> losses;
    at::Tensor gradient = head_backward(batch, targets, options, hidden, tape, access, losses);
    model_.backward(pass, tape, std::move(gradient), access);
    return exact_sum(at::cat(losses));
  }

  at::Tensor measure(const data::MicroBatch& batch) override {
    const model::Pass pass = model_.prepare(model_batch(batch), nullptr);
    const at::Tensor hidden = model_.forward(pass, model_.embed(pass));
    const model::HeadGuard guard = model_.use_head();
    const Targets targets = place(batch);
    const at::Tensor normed = model_.final_norm(hidden.index_select(0, targets.rows));
    std::vector<at::Tensor> losses;
    for (const HeadRows& rows : cut_for_head(trained_per_sequence(batch), head_rows_)) {
      at::Tensor logits = model_.head_logits(normed.narrow(0, rows.first, rows.count));
      losses.push_back(
          ops_.training->cross_entropy(logits, targets.tokens.narrow(0, rows.first, rows.count), 0));
    }
    return exact_sum(at::cat(losses));
  }

 private:
  struct Targets {
    at::Tensor rows;
    at::Tensor tokens;
  };

  // Forward and backward of final norm and head: the gradient of all hidden rows.
  at::Tensor head_backward(const data::MicroBatch& batch, const Targets& targets, const PassOptions& options,
                           const at::Tensor& hidden, model::ModelTape& tape, model::ParameterAccess& access,
                           std::vector<at::Tensor>& losses) {
    const model::HeadGuard guard = model_.use_head(access);
    const at::Tensor normed = model_.final_norm(hidden.index_select(0, targets.rows));
    at::Tensor normed_gradient = at::empty_like(normed);
    for (const HeadRows& rows : cut_for_head(trained_per_sequence(batch), head_rows_)) {
      const at::Tensor part = normed.narrow(0, rows.first, rows.count);
      at::Tensor logits = model_.head_logits(part);
      losses.push_back(ops_.training->cross_entropy(logits, targets.tokens.narrow(0, rows.first, rows.count),
                                                           options.gradient_scale));
      normed_gradient.narrow(0, rows.first, rows.count)
          .copy_(model_.head_backward(part, logits, rows.pieces, access));
    }
    at::Tensor gradient = at::zeros_like(hidden);
    gradient.index_copy_(0, targets.rows, normed_gradient);
    return model_.final_norm_backward(tape, gradient, access);
  }

  Targets place(const data::MicroBatch& batch) const {
    const auto bring = [this](const std::vector<std::int64_t>& values) {
      const at::Tensor host = at::tensor(values, at::kLong);
      return (pinned_ ? host.pin_memory() : host).to(ops_.device, pinned_);
    };
    return {bring(batch.trained_rows), bring(batch.targets)};
  }

  model::CausalModel& model_;
  tensor::DeviceOps& ops_;
  bool pinned_;
  std::int64_t head_rows_;
};

}  // namespace

std::unique_ptr<Objective> make_supervised(model::CausalModel& model, tensor::DeviceOps& ops, bool pinned) {
  return std::make_unique<Supervised>(model, ops, pinned);
}

}  // namespace muster::train
