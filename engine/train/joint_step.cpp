#include "train/joint_step.hpp"

#include <algorithm>
#include <utility>

#include "train/objectives/value_objective.hpp"

namespace muster::train {
namespace {

optimizer::Schedule schedule_of(const wire::TrainTask& task) {
  return {task.optimizer.schedule, task.optimizer.rate, task.optimizer.warmup_steps, task.optimizer.decay_steps,
          task.steps};
}

}  // namespace

wire::TrainTask task_of_critic(const wire::TrainTask& policy) {
  wire::TrainTask task = policy;
  task.model = *policy.critic_model;
  task.random_weights = policy.random_weights && policy.model == *policy.critic_model;
  task.weights.reset();
  task.adapters.reset();
  task.adapter.reset();
  task.value_head.reset();
  task.critic.reset();
  task.critic_model.reset();
  task.fresh_head = policy.critic_head;
  task.optimizer.rate = policy.critic_rate.value_or(policy.optimizer.rate);
  return task;
}

JointStep::JointStep(const wire::TrainTask& task, const TrainerContext& context, TrainedModel& trained,
                     std::unique_ptr<Objective> objective, std::optional<Critic> critic)
    : policy_(task, context, trained, std::move(objective)),
      policy_schedule_(schedule_of(task)),
      critic_schedule_(schedule_of(critic ? critic->task : task)) {
  if (critic) critic_.emplace(critic->task, context, critic->model, make_value_objective(*task.critic));
}

void JointStep::add(StepOutcome& outcome) const {
  const auto of_policy = policy_.objective().metrics(), of_critic = critic_->objective().metrics();
  for (std::size_t i = 0; i < of_critic.size(); ++i) {
    const auto place = std::ranges::find(of_policy, of_critic[i]);
    if (place == of_policy.end()) continue;
    outcome.metrics[static_cast<std::size_t>(place - of_policy.begin())] += of_critic_.metrics[i];
  }
  outcome.finite = outcome.finite && of_critic_.finite;
  outcome.leaves = outcome.leaves || of_critic_.leaves;
  outcome.ran_out = of_critic_.ran_out;
}

StepOutcome JointStep::compute(const data::LoadedStep& loaded, double loss_scale) {
  StepOutcome outcome = policy_.compute(loaded, loss_scale);
  if (!critic_ || outcome.ran_out) return outcome;
  of_critic_ = critic_->compute(loaded, loss_scale);
  add(outcome);
  return outcome;
}

// Both read the same passes, so that both get smaller ones.
Result<void> JointStep::shrink(std::int64_t step) {
  auto shrunk = policy_.shrink(step);
  return shrunk && critic_ ? critic_->shrink(step) : shrunk;
}

void JointStep::update(const StepOutcome& outcome, std::int64_t step, std::int64_t updates, double loss_scale) {
  policy_.update(outcome, policy_schedule_.rate(step), updates, loss_scale);
  if (critic_) critic_->update(of_critic_, critic_schedule_.rate(step), updates, loss_scale);
}

Error JointStep::explain_bad(const data::LoadedStep& loaded, const StepOutcome& outcome, double loss_scale,
                             std::int64_t step) {
  if (!critic_ || of_critic_.finite) return policy_.explain_bad(loaded, outcome, loss_scale, step);
  Error error = critic_->explain_bad(loaded, of_critic_, loss_scale, step);
  error.what = "the critic: " + error.what;
  return error;
}

}  // namespace muster::train
