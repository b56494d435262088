#include "job/train/step_count.hpp"

#include "data/batch_schedule.hpp"
#include "job/train/prompt_data.hpp"

namespace muster::job {
namespace {

// Optimizer steps of passes over prepared data.
Result<std::int64_t> steps_of_passes(const spec::RunSpec& spec, const data::PreparedData& data, std::int64_t batch,
                                     std::int64_t longest, std::int64_t passes) {
  const auto dataset = data::Dataset::open(data.training.path, data::Verification::structure);
  if (!dataset) return dataset.error();
  data::BatchSchedule schedule(dataset->lengths(),
                               {static_cast<std::uint64_t>(spec.experiment.seed), true, spec.training.packing, longest,
                                spec::samples_together(spec.training.algorithm)},
                               batch);
  return schedule.steps_of(passes);
}

}  // namespace

Result<std::int64_t> step_count(const spec::RunSpec& spec, const data::PreparedData& data, std::int64_t batch,
                                std::int64_t longest) {
  const spec::TrainingSpec& training = spec.training;
  if (training.max_steps && training.num_epochs)
    return Error{Error::Kind::bad_input, "training.max_steps is given, and training.num_epochs", "keep one of the two"};
  if (training.max_steps) return *training.max_steps;
  const auto policy = spec.policy_options();
  const std::int64_t prompts = data.training.counts.samples;
  if (policy && training.num_iterations) return steps_of_rounds(*policy, prompts, batch, *training.num_iterations);
  const std::int64_t passes = training.num_epochs.value_or(training.num_iterations.value_or(1));
  if (policy) return policy_steps(*policy, prompts, batch, passes);
  return steps_of_passes(spec, data, batch, longest, passes);
}

Result<void> count_periods(wire::TrainTask& task, const spec::RunSpec& spec, const data::PreparedData& data,
                           std::int64_t longest) {
  const spec::TrainingSpec& training = spec.training;
  if (!training.eval_every && !training.save_every) return {};
  const auto policy = spec.policy_options();
  const auto steps = policy ? Result<std::int64_t>(updates_of_round(*policy, task.batch_size))
                            : steps_of_passes(spec, data, task.batch_size, longest, 1);
  if (!steps) return steps.error();
  if (training.eval_every) task.evaluation.every = *training.eval_every * *steps;
  if (training.save_every) task.save_every = *training.save_every * *steps;
  return {};
}

}  // namespace muster::job
