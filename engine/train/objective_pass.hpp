// A micro-batch through the model under an objective: forward, the objective's weights, backward.
#pragma once

#include "model/causal_model.hpp"
#include "train/exact_loss.hpp"
#include "train/objectives/objective.hpp"

namespace muster::train {

// Inputs of adapters that are left out. Which ones follows from the seed, the sample and the place in it.
struct DropoutOptions {
  double share = 0;  // 0: none
  std::uint64_t seed = 0;
};

struct PassOptions {
  double gradient_scale = 1;  // of all weights
  model::Recompute recompute = model::Recompute::nothing;
  DropoutOptions dropout = {};
  StepFacts step = {};
};

class ObjectivePass {
 public:
  // model and ops must outlive it. pinned: indices go to a GPU from pinned memory.
  ObjectivePass(std::unique_ptr<Objective> objective, model::CausalModel& model, tensor::DeviceOps& ops, bool pinned)
      : objective_(std::move(objective)), model_(model), ops_(ops), pinned_(pinned) {}

  const Objective& objective() const { return *objective_; }
  // Parts of the exact sums of all metrics, of no rows: int64 [metrics · loss_parts] on the device.
  at::Tensor no_sums() const;
  // The objective's extremes over what was learnt or measured since the last call, greatest ones and the negatives of
  // least ones: float32 [extremes], empty where it has none.
  at::Tensor take_extremes();
  // Gradients go to access. The sums of the metrics (exact_loss.hpp).
  at::Tensor learn(const data::MicroBatch& batch, const PassOptions& options, model::ParameterAccess& access);
  // Forward alone; the pass has begun. step: of everything that is measured.
  at::Tensor measure(const data::MicroBatch& batch, const StepFacts& step);
  // Likewise the exact sum of the objective's scores.
  at::Tensor score(const data::MicroBatch& batch, const StepFacts& step);
  // Likewise the log-probability of each trained row, and its scores, the bits that training has.
  at::Tensor log_probabilities(const data::MicroBatch& batch);
  at::Tensor scores(const data::MicroBatch& batch);

 private:
  std::int64_t summed_metrics() const {
    return std::ssize(objective_->metrics()) - std::ssize(objective_->extremes());
  }
  at::Tensor sums_of(const TrainedRows& rows);
  at::Tensor hidden_of(const data::MicroBatch& batch);
  // What the objective reads of the rows.
  TrainedRows read(const data::MicroBatch& batch, const StepFacts& step);

  std::unique_ptr<Objective> objective_;
  model::CausalModel& model_;
  tensor::DeviceOps& ops_;
  bool pinned_;
  at::Tensor extremes_;  // of the passes since the last call
};

}  // namespace muster::train
