// One step of everything that is trained: the model, and beside a policy its critic, where that has weights of its own.
// Both see the same passes, one after the other; each has gradients, a norm that they are clipped by, and a rate.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "train/optimizer_step.hpp"

namespace muster::train {

// The settings of a critic's training, as of any model's: those of the policy, but for its weights and its rate.
wire::TrainTask task_of_critic(const wire::TrainTask& policy);

// What is trained beside the policy; all must outlive the steps.
struct Critic {
  const wire::TrainTask& task;
  TrainedModel& model;
};

class JointStep {
 public:
  // All must outlive it. critic: absent: there is none, or it is a head of the policy's own.
  JointStep(const wire::TrainTask& task, const TrainerContext& context, TrainedModel& trained,
            std::unique_ptr<Objective> objective, std::optional<Critic> critic);

  const Objective& objective() const { return policy_.objective(); }
  const PassSize& pass_size() const { return policy_.pass_size(); }

  // As of OptimizerStep. The loss is the sum of both; the norm is the policy's.
  StepOutcome compute(const data::LoadedStep& loaded, double loss_scale);
  Result<void> shrink(std::int64_t step);
  // step: its number, from 1, which both rates follow from.
  void update(const StepOutcome& outcome, std::int64_t step, std::int64_t updates, double loss_scale);
  Error explain_bad(const data::LoadedStep& loaded, const StepOutcome& outcome, double loss_scale, std::int64_t step);
  // The policy's.
  double rate(std::int64_t step) const { return policy_schedule_.rate(step); }

 private:
  // Adds what the critic's passes gave.
  void add(StepOutcome& outcome) const;

  OptimizerStep policy_;
  optimizer::Schedule policy_schedule_;
  std::optional<OptimizerStep> critic_;
  optimizer::Schedule critic_schedule_;
  StepOutcome of_critic_;  // of the present step
};

}  // namespace muster::train
