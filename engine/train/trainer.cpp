#include "train/trainer.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>

#include "checkpoint/training_parameters.hpp"
#include "train/evaluation.hpp"
#include "train/rollouts/episode_evaluation.hpp"
#include "train/export_weights.hpp"
#include "train/memory_use.hpp"
#include "train/objectives/objectives.hpp"
#include "train/joint_step.hpp"
#include "train/objectives/reference_scores.hpp"
#include "train/rollouts/episode_evaluation.hpp"
#include "train/rollouts/rollout_steps.hpp"
#include "train/step_source.hpp"
#include "train/objectives/supervised.hpp"
#include "train/task_agreement.hpp"

namespace muster::train {
namespace {

using Clock = std::chrono::steady_clock;
using wire::TrainTask;

constexpr std::chrono::seconds between_memory_reports(5);

class Loop final : public Trainer {
 public:
  Loop(TrainTask task, TrainerContext context)
      : task_(std::move(task)),
        context_(std::move(context)),
        clock_(context_.device) {}

  Result<void> begin();
  Result<Ending> run() override;

 private:
  Result<void> make_critic();
  // What checkpoints have.
  std::vector<SavedState> saved_states() const;
  parallel::CommunicationTime communication_time();
  // Where steps come from, and what is minimised over them.
  Result<std::unique_ptr<Objective>> open_dataset();
  Result<std::unique_ptr<Objective>> open_prompts();
  Result<void> check_data(const data::Dataset& dataset) const;
  Result<void> add_environments();
  Result<std::unique_ptr<Objective>> make_training_objective(const data::Dataset& dataset);
  Result<std::unique_ptr<Objective>> make_evaluation_objective();
  // Read from its file, or computed by the weights that the run begins with, and kept there.
  Result<SampleScores> reference_of(const data::Dataset& dataset, const std::optional<std::string>& file);
  Result<void> fill();
  double loss_scale() const { return scales_loss(task_) ? position_.scaler.scale() : 1; }
  // One step of the optimizer, unless memory ran out. Whether a rank was asked to leave.
  Result<bool> step();
  void update(const StepOutcome& outcome);
  Result<void> shrink();
  Result<void> after_step(bool leaves);
  // Whether one belongs to every run that comes past this step.
  bool evaluation_is_due(std::int64_t step) const {
    return task_.evaluation.every && step % *task_.evaluation.every == 0;
  }
  Result<void> evaluate();
  Result<void> tell_saved(bool wait);
  Result<void> finish();
  // For the ranks of the first copy together; the first one writes.
  Result<void> export_model();
  void tell_step(const SourcedStep& sourced, const StepOutcome& outcome, double rate, double loss_scale);
  void tell_memory(bool now);

  TrainTask task_;
  TrainerContext context_;
  std::unique_ptr<TrainedModel> trained_;
  std::optional<TrainTask> critic_task_;  // where a policy's critic has weights of its own
  std::unique_ptr<TrainedModel> critic_;
  std::unique_ptr<StepSource> steps_;
  std::optional<JointStep> step_;
  std::optional<Evaluation> evaluation_;
  std::optional<Checkpoints> checkpoints_;
  RunPosition position_;
  StepClock clock_;
  Clock::time_point told_memory_;
};

Result<void> Loop::begin() {
  if (auto settled = agree_on_task(task_, context_.seed, context_.ranks, context_.device); !settled) return settled;
  auto trained = TrainedModel::make(task_, context_);
  if (!trained) return trained.error();
  trained_ = std::move(*trained);
  if (auto made = make_critic(); !made) return made;
  auto objective = task_.policy ? open_prompts() : open_dataset();
  if (!objective) return objective.error();
  auto evaluated = make_evaluation_objective();
  if (!evaluated) return evaluated.error();
  std::optional<Critic> critic;
  if (critic_) critic.emplace(*critic_task_, *critic_);
  step_.emplace(task_, context_, *trained_, std::move(*objective), critic);
  checkpoints_.emplace(task_, CheckpointPlace{context_.ranks.rank(), context_.tell}, saved_states());
  auto evaluation =
      Evaluation::make({.data = task_.evaluation.data,
                        .questions = task_.evaluation.questions,
                        .micro_batch = task_.micro_batch,
                        .together = spec::samples_together(task_.algorithm)},
                       {trained_->text(), trained_->model(), trained_->ops(), context_.ranks, context_.tell},
                       std::move(*evaluated));
  if (!evaluation) return evaluation.error();
  evaluation_.emplace(std::move(*evaluation));
  if (auto added = add_environments(); !added) return added;
  return fill();
}

Result<void> Loop::add_environments() {
  const auto& episodes = task_.evaluation.episodes;
  for (std::size_t i = 0; episodes && i < episodes->environments.size(); ++i) {
    auto made = EpisodeEvaluation::make(*episodes, i, task_.evaluation.episode_rows[i],
                                        {trained_->text(), trained_->model(), trained_->ops(), context_.seed});
    if (!made) return made.error();
    evaluation_->add(std::move(*made));
  }
  return {};
}

Result<void> Loop::make_critic() {
  if (!task_.critic_model) return {};
  critic_task_ = task_of_critic(task_);
  auto made = TrainedModel::make(*critic_task_, context_, trained_.get());
  if (!made) return made.error();
  critic_ = std::move(*made);
  return {};
}

std::vector<SavedState> Loop::saved_states() const {
  std::vector<SavedState> states{{trained_->state(), trained_->transfer()}};
  if (critic_) states.push_back({critic_->state(), critic_->transfer()});
  return states;
}

Result<std::unique_ptr<Objective>> Loop::open_dataset() {
  auto dataset = data::Dataset::open(task_.data, data::Verification::structure);
  if (!dataset) return dataset.error();
  if (auto checked = check_data(*dataset); !checked) return checked.error();
  auto objective = make_training_objective(*dataset);
  if (!objective) return objective.error();
  steps_ = make_dataset_steps(std::move(*dataset), task_, context_.seed, context_.ranks.size(), context_.ranks.rank());
  return objective;
}

Result<std::unique_ptr<Objective>> Loop::open_prompts() {
  auto steps = make_rollout_steps(task_, context_, *trained_, critic_.get());
  if (!steps) return steps.error();
  steps_ = std::move(*steps);
  return make_objective(task_.algorithm, {.policy = task_.policy,
                                          .critic = task_.critic,
                                          .values_are_elsewhere = critic_ != nullptr});
}

Result<void> Loop::check_data(const data::Dataset& dataset) const {
  const std::int64_t limit = dataset.counts().token_limit, vocabulary = trained_->model().config().vocabulary;
  if (limit <= vocabulary) return {};
  return Error{Error::Kind::bad_input,
               fmt::format("the data has token {}, and the model knows {}", limit - 1, vocabulary),
               "use the model's own tokenizer"};
}

Result<std::unique_ptr<Objective>> Loop::make_training_objective(const data::Dataset& dataset) {
  auto reference = reference_of(dataset, task_.reference);
  if (!reference) return reference.error();
  return make_objective(task_.algorithm, {.preferences = task_.preferences,
                                          .reward_model = task_.reward_model,
                                          .combined = task_.combined,
                                          .reference = std::move(*reference)});
}

Result<std::unique_ptr<Objective>> Loop::make_evaluation_objective() {
  if (!task_.evaluation.data || !task_.evaluation.reference)
    return make_objective(task_.algorithm, {.preferences = task_.preferences,
                                            .policy = task_.policy,
                                            .critic = task_.critic,
                                            .reward_model = task_.reward_model,
                                            .combined = task_.combined});
  const auto dataset = data::Dataset::open(*task_.evaluation.data, data::Verification::structure);
  if (!dataset) return dataset.error();
  auto reference = reference_of(*dataset, task_.evaluation.reference);
  if (!reference) return reference.error();
  return make_objective(task_.algorithm, {.preferences = task_.preferences,
                                          .reward_model = task_.reward_model,
                                          .reference = std::move(*reference)});
}

Result<SampleScores> Loop::reference_of(const data::Dataset& dataset, const std::optional<std::string>& file) {
  if (!file) return SampleScores();
  auto kept = read_sample_scores(*file, dataset.size());
  const at::Tensor missing =
      at::full({1}, kept ? 0 : 1, at::TensorOptions().dtype(at::kLong).device(context_.device));
  context_.ranks.all_reduce(missing);
  if (missing.item<std::int64_t>() == 0) return std::move(*kept);
  if (auto filled = trained_->fill(nullptr); !filled) return filled.error();
  ObjectivePass passes(make_supervised(), trained_->model(), trained_->ops(), task_.pinned);
  SampleScores scores =
      score_samples({dataset, spec::samples_together(task_.algorithm), task_.micro_batch, "scoring by the reference"},
                    {trained_->model(), context_.device, context_.ranks, context_.tell}, passes);
  trained_->strategy().check_ranks();
  if (!kept)
    if (auto written = write_sample_scores(*file, scores); !written) return written.error();
  return scores;
}

Result<void> Loop::fill() {
  std::optional<checkpoint::TrainingCheckpoint> resumed;
  if (task_.resume && trained_->transfer().has_files()) {
    auto opened = checkpoint::TrainingCheckpoint::open(*task_.resume);
    if (!opened) return opened.error();
    if (opened->state().settings_hash != task_.identity)
      return Error{Error::Kind::bad_input,
                   fmt::format("{} is of a run with other settings, model or data", *task_.resume),
                   "resume with what that run was started with, or start a new one"};
    const auto tensors = Checkpoints::tensors_of(saved_states());
    if (auto same = checkpoint::check_same_tensors(*opened, tensors); !same) return same;
    position_ = position_of(opened->state(), task_);
    resumed.emplace(std::move(*opened));
  }
  for (TrainedModel* model : {trained_.get(), critic_.get()})
    if (model != nullptr)
      if (auto filled = model->fill(resumed ? &*resumed : nullptr); !filled) return filled;
  // Ranks of other hosts cannot read the run's folder.
  if (context_.ranks.size() > task_.saving_ranks)
    take_from_first_rank(position_, context_.ranks, context_.device);
  return {};
}

Result<Ending> Loop::run() {
  steps_->seek(position_.cursor, step_->pass_size().micro_batch);
  told_memory_ = Clock::now();
  clock_.begin();
  // A run that was asked to leave did so without the evaluation of its last step, which takes long.
  if (position_.step > 0 && position_.step < task_.steps && evaluation_is_due(position_.step))
    if (auto done = evaluate(); !done) return done.error();
  bool leaves = false;
  while (position_.step < task_.steps && !leaves) {
    const auto done = step();
    if (!done) return done.error();
    leaves = *done;
  }
  if (auto done = finish(); !done) return done.error();
  return position_.step < task_.steps ? Ending::left : Ending::done;
}

Result<bool> Loop::step() {
  clock_.loading();
  const Result<SourcedStep> sourced = steps_->next(task_.steps - position_.step);
  if (!sourced) return sourced.error();
  const data::LoadedStep& loaded = sourced->loaded;
  clock_.loaded(sourced->sampling, sourced->judging);
  const double scale = loss_scale();
  const StepOutcome found = step_->compute(loaded, scale);
  clock_.computed(communication_time());
  if (found.ran_out) {
    if (auto shrunk = shrink(); !shrunk) return shrunk.error();
    return false;
  }
  if (!found.finite && !scales_loss(task_))
    return step_->explain_bad(loaded, found, scale, position_.step + 1);
  const double rate = step_->rate(position_.step + 1);
  update(found);
  ++position_.step;
  position_.cursor = steps_->settle(loaded, found.metrics);
  tell_step(*sourced, found, rate, scale);
  if (scales_loss(task_)) position_.scaler.update(found.finite);
  if (auto done = after_step(found.leaves); !done) return done.error();
  return found.leaves;
}

void Loop::update(const StepOutcome& outcome) {
  if (!outcome.finite) return;
  clock_.updating();
  checkpoints_->before_change();
  step_->update(outcome, position_.step + 1, ++position_.updates, loss_scale());
  clock_.updated();
}

Result<void> Loop::shrink() {
  if (auto shrunk = step_->shrink(position_.step + 1); !shrunk) return shrunk;
  const std::int64_t micro_batch = step_->pass_size().micro_batch;
  evaluation_->take_at_once(micro_batch);
  steps_->seek(position_.cursor, micro_batch);
  return {};
}

void Loop::tell_step(const SourcedStep& sourced, const StepOutcome& outcome, double rate, double loss_scale) {
  const data::LoadedStep& loaded = sourced.loaded;
  const StepClock::Told time = clock_.tell();
  wire::TrainStep told;
  told.step = position_.step;
  told.epoch = loaded.epochs;
  told.loss = outcome.loss();
  told.learning_rate = rate;
  if (std::isfinite(outcome.norm)) told.gradient_norm = outcome.norm;
  told.tokens = loaded.rows;
  told.seconds = time.seconds;
  const auto names = step_->objective().metrics();
  if (!sourced.metrics.empty()) told.metrics = sourced.metrics;
  for (std::size_t i = 1; i < names.size(); ++i) {
    if (!told.metrics) told.metrics.emplace();
    told.metrics->push_back({std::string(names[i]), outcome.metrics[i]});
  }
  told.trained = loaded.totals.trained_tokens;
  told.parts = time.parts;
  told.skipped = !outcome.finite;
  if (scales_loss(task_)) told.loss_scale = loss_scale;
  position_.remember(told);
  if (context_.ranks.rank() == 0) context_.tell(told);
}

void Loop::tell_memory(bool now) {
  if (!now && Clock::now() - told_memory_ < between_memory_reports) return;
  told_memory_ = Clock::now();
  context_.tell(memory_use(context_.device, position_.step));
}

Result<void> Loop::tell_saved(bool wait) {
  const auto saved = checkpoints_->completed(wait);
  if (!saved) return saved.error();
  if (*saved && context_.ranks.rank() == 0) context_.tell(**saved);
  return {};
}

Result<void> Loop::evaluate() {
  if (position_.evaluated == position_.step || evaluation_->empty()) return {};
  position_.evaluated = position_.step;
  EvaluationResult result;
  try {
    result = evaluation_->measure();
    const auto played = evaluation_->play();
    if (!played) return played.error();
    if (!played->empty() && !result.all.metrics) result.all.metrics.emplace();
    if (!played->empty()) result.all.metrics->insert(result.all.metrics->end(), played->begin(), played->end());
  } catch (const c10::OutOfMemoryError&) {
    return Error{
        Error::Kind::refused,
        fmt::format("after step {}: the evaluation runs out of memory, one sequence at a time", position_.step),
        "evaluate on shorter rows, or spread the state over more GPUs (--strategy fsdp)"};
  }
  trained_->strategy().check_ranks();
  if (context_.ranks.rank() != 0) return {};
  result.all.step = position_.step;
  if (!position_.last_steps.empty() && position_.last_steps.back().step == position_.step) {
    if (std::isfinite(result.all.loss.value_or(0))) position_.last_steps.back().eval_loss = result.all.loss;
    position_.last_steps.back().exact_match = result.all.exact_match();
    position_.last_steps.back().eval_metrics = result.all.metrics;
  }
  for (const GivenAnswer& answer : result.answers) {
    if (std::ssize(result.all.samples) == task_.evaluation.samples) break;
    result.all.samples.push_back(evaluation_->answered(answer));
  }
  context_.tell(result.all);
  return {};
}

Result<void> Loop::after_step(bool leaves) {
  const bool last = position_.step == task_.steps;
  if (last || (evaluation_is_due(position_.step) && !leaves))
    if (auto done = evaluate(); !done) return done;
  const bool finished = last && task_.save_at_end == spec::FinalSave::all;
  if (finished || leaves || (task_.save_every && position_.step % *task_.save_every == 0)) {
    if (auto told = tell_saved(true); !told) return told;  // one at a time
    if (auto saved = checkpoints_->save(state_of(position_, task_, context_.seed)); !saved) return saved;
  }
  if (auto told = tell_saved(false); !told) return told;
  tell_memory(last);
  if (task_.clear_cache_every > 0 && position_.step % task_.clear_cache_every == 0)
    release_cached_memory(context_.device);
  return {};
}

parallel::CommunicationTime Loop::communication_time() {
  parallel::CommunicationTime time = trained_->strategy().take_communication_time();
  if (!critic_) return time;
  const parallel::CommunicationTime more = critic_->strategy().take_communication_time();
  time.exposed += more.exposed;
  time.busy += more.busy;
  return time;
}

Result<void> Loop::export_model() {
  if (critic_)
    if (auto written = export_weights(*critic_task_, critic_->description(), critic_->text(), critic_->transfer(),
                                      {context_.ranks.rank(), context_.tell, "critic"});
        !written)
      return written;
  return export_weights(task_, trained_->description(), trained_->text(), trained_->transfer(),
                        {context_.ranks.rank(), context_.tell});
}

Result<void> Loop::finish() {
  const bool whole = position_.step == task_.steps;
  if (whole)
    if (auto done = evaluate(); !done) return done;
  if (auto told = tell_saved(true); !told) return told;
  if (whole && task_.save_at_end != spec::FinalSave::nothing && trained_->state().place().copy == 0)
    if (auto done = export_model(); !done) return done;
  // What this rank sent has arrived; others may take longer to write, and need not be waited for.
  parallel::StreamMark::of_current_stream(context_.device).wait();
  context_.ranks.check();
  return {};
}

}  // namespace

Result<std::unique_ptr<Trainer>> Trainer::make(const TrainTask& task, TrainerContext context) {
  auto loop = std::make_unique<Loop>(task, std::move(context));
  if (auto begun = loop->begin(); !begun) return begun.error();
  return std::unique_ptr<Trainer>(std::move(loop));
}

}  // namespace muster::train
