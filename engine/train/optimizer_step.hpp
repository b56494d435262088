// One step of the optimizer: the passes of this rank, the sums over ranks, the update. What runs out of memory is
// computed again by smaller passes.
#pragma once

#include <functional>
#include <vector>

#include "optimizer/schedule.hpp"
#include "train/checkpoints.hpp"
#include "train/find_nonfinite.hpp"
#include "train/objective_pass.hpp"
#include "train/pass_size.hpp"
#include "train/run_position.hpp"
#include "train/step_clock.hpp"
#include "train/trained_model.hpp"

namespace muster::train {

// What a step left behind, after the sums over ranks.
struct StepOutcome {
  std::vector<double> metrics;  // of the objective; the first is the loss
  double norm = 0;              // of the gradients, before clipping
  bool finite = true;
  bool leaves = false;   // some rank was asked to
  bool ran_out = false;  // of memory, some rank: the step counts for nothing

  double loss() const { return metrics.front(); }
};

class OptimizerStep {
 public:
  // All must outlive it.
  OptimizerStep(const wire::TrainTask& task, const TrainerContext& context, TrainedModel& trained,
                std::unique_ptr<Objective> objective);

  const Objective& objective() const { return passes_.objective(); }
  const PassSize& pass_size() const { return pass_size_; }

  // Forward and backward of all passes of this rank, and the sums over ranks.
  StepOutcome compute(const data::LoadedStep& loaded, double loss_scale);
  // After a step that ran out. Refused: passes cannot be smaller.
  Result<void> shrink(std::int64_t step);
  // The weights change. updates: this one's number, from 1.
  void update(const StepOutcome& outcome, double rate, std::int64_t updates, double loss_scale);
  // After a step whose numbers are bad: on which rank, and in which tensor.
  Error explain_bad(const data::LoadedStep& loaded, const StepOutcome& outcome, double loss_scale, std::int64_t step);

 private:
  // Passes without gradients that come first; what follows from them for all ranks.
  double score_first(const data::LoadedStep& loaded);
  // The sums of the metrics. With plain gradients, without the sums over ranks.
  at::Tensor run_passes(const data::LoadedStep& loaded, double loss_scale, PlainGradients* plain);
  DropoutOptions dropout_of(const data::LoadedStep& loaded) const;
  // False: memory ran out, and the pass was abandoned.
  bool finishes(const std::function<void()>& pass, model::ParameterAccess& access) const;
  // Adds to the sums. False: memory ran out, and the pass was abandoned.
  bool learn(const data::MicroBatch& pass, const PassOptions& options, model::ParameterAccess& access, at::Tensor& sums);

  const wire::TrainTask& task_;
  const TrainerContext& context_;
  TrainedModel& trained_;
  ObjectivePass passes_;
  PassSize pass_size_;
  StepFacts facts_;       // of the present step
  bool ran_out_ = false;  // of memory, this rank, in the present step
};

}  // namespace muster::train
