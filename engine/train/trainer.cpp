#include "train/trainer.hpp"

#include <fmt/format.h>

#include <ATen/Parallel.h>

#include <chrono>
#include <cmath>
#include <deque>
#include <limits>

#include "chat/model_text.hpp"
#include "checkpoint/training_checkpoint.hpp"
#include "checkpoint/training_parameters.hpp"
#include "data/batch_loader.hpp"
#include "model/random_source.hpp"
#include "optimizer/loss_scaler.hpp"
#include "optimizer/schedule.hpp"
#include "spec/model/model_source.hpp"
#include "tensor/element_types.hpp"
#include "train/abandon_pass.hpp"
#include "train/checkpoints.hpp"
#include "train/evaluation.hpp"
#include "train/exact_loss.hpp"
#include "train/export_weights.hpp"
#include "train/find_nonfinite.hpp"
#include "train/gradient_norm.hpp"
#include "train/memory_use.hpp"
#include "train/objective.hpp"
#include "train/pass_size.hpp"
#include "train/progress_sign.hpp"
#include "train/task_agreement.hpp"
#include "train/step_clock.hpp"

namespace muster::train {
namespace {

using Clock = std::chrono::steady_clock;
using wire::TrainTask;

constexpr std::chrono::seconds between_memory_reports(5);
constexpr std::size_t steps_in_a_checkpoint = 512;  // whose numbers it holds

model::Recompute recompute_of(spec::Recomputation asked) {
  if (asked == spec::Recomputation::full) return model::Recompute::blocks;
  return asked == spec::Recomputation::selective ? model::Recompute::cheap : model::Recompute::nothing;
}

optimizer::OptimizerSettings optimizer_settings(const wire::OptimizerOptions& options) {
  return {options.kind, options.weight_decay, options.beta1, options.beta2, options.epsilon, options.momentum};
}

// What a step left behind, after the sums over ranks.
struct StepOutcome {
  double loss = 0;
  double norm = 0;  // of the gradients, before clipping
  bool finite = true;
  bool leaves = false;   // some rank was asked to
  bool ran_out = false;  // of memory, some rank: the step counts for nothing
};

class Loop final : public Trainer {
 public:
  // host: where shards are kept in the host's memory, what steps them there.
  Loop(const TrainTask& task, TrainerContext place, StateRanks ranks, spec::ModelDescription description,
       chat::ModelText text, tensor::DeviceOps ops, std::optional<tensor::DeviceOps> host,
       data::Dataset dataset)
      : task_(task),
        place_(std::move(place)),
        state_ranks_(std::move(ranks)),
        description_(std::move(description)),
        text_(std::move(text)),
        ops_(std::move(ops)),
        host_(std::move(host)),
        dataset_(std::move(dataset)),
        model_(model::CausalModel::unfilled(description_.config, ops_, tensor::to_torch(task.compute),
                                            state_ranks_.parameter_memory(ops_, tensor::to_torch(task.state)))),
        strategy_(state_ranks_.make_strategy(model_, ops_, task.exact, tensor::to_torch(task.state))),
        optimizer_(optimizer::make_optimizer(optimizer_settings(task.optimizer), shard_learning(), *strategy_)),
        state_(*strategy_, *optimizer_),
        transfer_(place_.ranks, place_.device, static_cast<int>(task.saving_ranks), state_),
        objective_(make_supervised(model_, ops_, task.pinned)),
        checkpoints_(task, {place_.ranks.rank(), place_.tell}, state_, transfer_),
        schedule_{task.optimizer.schedule, task.optimizer.rate, task.optimizer.warmup_steps, task.optimizer.decay_steps,
                  task.steps},
        pass_size_{task.micro_batch, task.recompute},
        clock_(place_.device) {}

  Result<void> begin();
  Result<Ending> run() override;

 private:
  // The operations of the device that the shards are on.
  tensor::TrainingOps& shard_learning() { return host_ ? *host_->training : *ops_.training; }
  bool scales_loss() const { return task_.compute == spec::ElementType::float16; }
  data::BatchSchedule batches() const {
    return {dataset_.lengths(), {place_.seed, true, task_.packing, task_.sequence_length}, task_.batch_size};
  }
  // From where the run stands.
  data::BatchLoader loader() const {
    data::BatchSchedule order = batches();
    order.seek(cursor_);
    return {dataset_,
            std::move(order),
            {place_.ranks.size(), place_.ranks.rank(), pass_size_.micro_batch},
            {static_cast<int>(task_.loader_threads), 4}};
  }

  Result<void> fill_state();
  Result<void> read_weights();
  Result<void> fill_from(PieceReader reader);
  Result<void> resume(const std::string& path);
  // Ranks of other hosts cannot read the run's folder.
  void take_counters_from_first_rank();
  checkpoint::TrainingState facts() const;
  // Forward and backward of all passes of this rank, and the sums over ranks; with plain gradients, without these.
  at::Tensor compute(const data::LoadedStep& loaded, PlainGradients* plain = nullptr);
  // Adds to the losses. False: memory ran out, and the pass was abandoned.
  bool learn(const data::MicroBatch& pass, const PassOptions& options, model::ParameterAccess& access, at::Tensor& losses);
  Result<void> shrink();
  StepOutcome outcome(const data::LoadedStep& loaded, const at::Tensor& loss_sum);
  void update(const StepOutcome& outcome, double rate);
  Error explain_bad(const data::LoadedStep& loaded, const StepOutcome& outcome);
  Result<void> after_step(bool leaves);
  // Whether one belongs to every run that comes past this step.
  bool evaluation_is_due(std::int64_t step) const {
    return task_.evaluation.every && step % *task_.evaluation.every == 0;
  }
  Result<void> evaluate();
  Result<void> tell_saved(bool wait);
  Result<void> finish();
  // For the ranks of the first copy together; the first one writes.
  void tell_step(const data::LoadedStep& loaded, const StepOutcome& outcome, double rate);
  void tell_memory(bool now);

  TrainTask task_;
  TrainerContext place_;
  StateRanks state_ranks_;
  spec::ModelDescription description_;
  chat::ModelText text_;
  tensor::DeviceOps ops_;
  std::optional<tensor::DeviceOps> host_;
  data::Dataset dataset_;
  model::CausalModel model_;
  std::unique_ptr<parallel::Strategy> strategy_;
  std::unique_ptr<optimizer::Optimizer> optimizer_;
  StateTensors state_;
  StateTransfer transfer_;
  std::unique_ptr<Objective> objective_;
  std::optional<Evaluation> evaluation_;
  Checkpoints checkpoints_;
  optimizer::Schedule schedule_;
  optimizer::LossScaler scaler_;
  PassSize pass_size_;
  bool ran_out_ = false;      // of memory, this rank, in the present step
  std::int64_t step_ = 0;     // done
  std::int64_t updates_ = 0;  // of them, not skipped
  data::BatchCursor cursor_;
  std::deque<checkpoint::StepNumbers> last_steps_;
  std::optional<std::int64_t> evaluated_;  // the last step after which it was done
  StepClock clock_;
  Clock::time_point told_memory_;
};

Result<void> Loop::begin() {
  if (dataset_.counts().token_limit > description_.config.vocabulary)
    return Error{Error::Kind::bad_input,
                 fmt::format("the data has token {}, and the model knows {}", dataset_.counts().token_limit - 1,
                             description_.config.vocabulary),
                 "use the model's own tokenizer"};
  auto evaluation = Evaluation::make({task_.evaluation.data, task_.evaluation.questions, task_.micro_batch},
                                     {text_, model_, ops_, place_.ranks, place_.tell});
  if (!evaluation) return evaluation.error();
  evaluation_.emplace(std::move(*evaluation));
  if (auto filled = fill_state(); !filled) return filled;
  strategy_->publish();
  return {};
}

Result<void> Loop::fill_state() {
  auto filled = !transfer_.has_files() ? transfer_.fill({}) : task_.resume ? resume(*task_.resume) : read_weights();
  if (!filled) return filled;
  if (place_.ranks.size() > task_.saving_ranks) take_counters_from_first_rank();
  return {};
}

Result<void> Loop::read_weights() {
  const spec::ModelSearch search = spec::model_search_from_environment();
  if (task_.random_weights) return fill_from(reader_of(*model::make_random_source(description_.config, place_.seed)));
  const auto source = checkpoint::open_checkpoint(task_.model, search);
  if (!source) return source.error();
  return fill_from(reader_of(**source));
}

Result<void> Loop::fill_from(PieceReader reader) {
  std::int64_t elements = 0, done = 0;
  for (std::size_t unit = 0; unit < state_.units(); ++unit) elements += state_.part_elements(unit);
  ProgressSign sign(place_.tell, "loading", elements * std::ssize(state_.states()));
  return transfer_.fill([&](const parallel::FlatPiece& piece, const std::string& state, const at::Tensor& flat) {
    auto read = reader(piece, state, flat);
    sign.give(done += piece.count);
    return read;
  });
}

Result<void> Loop::resume(const std::string& path) {
  const auto opened = checkpoint::TrainingCheckpoint::open(path);
  if (!opened) return opened.error();
  const checkpoint::TrainingState& saved = opened->state();
  if (saved.settings_hash != task_.identity)
    return Error{Error::Kind::bad_input, fmt::format("{} is of a run with other settings, model or data", path),
                 "resume with what that run was started with, or start a new one"};
  if (auto same = checkpoint::check_same_model(*opened, description_.shape); !same) return same;
  step_ = saved.step;
  cursor_ = {saved.cursor.epoch, saved.cursor.unit};
  last_steps_.assign(saved.last_steps.begin(), saved.last_steps.end());
  updates_ = step_;
  for (const checkpoint::NamedNumber& number : saved.more)
    if (number.name == "skipped") updates_ -= static_cast<std::int64_t>(number.value);
  // The evaluation of the last step is repeated: a run that is finished shows what it has learnt.
  const checkpoint::StepNumbers* last = last_steps_.empty() ? nullptr : &last_steps_.back();
  if (last && last->step == step_ && step_ < task_.steps && (last->eval_loss || last->exact_match)) evaluated_ = step_;
  if (saved.loss_scale)
    scaler_ = optimizer::LossScaler({saved.loss_scale->scale, saved.loss_scale->good_steps, step_ - updates_});
  return fill_from(reader_of(*opened));
}

void Loop::take_counters_from_first_rank() {
  const optimizer::LossScaler::State& scaler = scaler_.state();
  constexpr std::int64_t never = -1;
  at::Tensor whole = at::tensor({step_, updates_, cursor_.epoch, cursor_.unit, scaler.clean_steps, scaler.skipped,
                                 evaluated_.value_or(never)},
                                at::TensorOptions().dtype(at::kLong))
                         .to(place_.device);
  // A power of two, which float32 holds exactly.
  at::Tensor scale = at::full({1}, scaler.scale, at::TensorOptions().dtype(at::kFloat).device(place_.device));
  place_.ranks.broadcast(whole, 0);
  place_.ranks.broadcast(scale, 0);
  const at::Tensor host = whole.cpu();
  const auto* number = host.const_data_ptr<std::int64_t>();
  step_ = number[0];
  updates_ = number[1];
  cursor_ = {number[2], number[3]};
  scaler_ = optimizer::LossScaler({scale.item<double>(), number[4], number[5]});
  evaluated_ = number[6] == never ? std::nullopt : std::optional(number[6]);
}

checkpoint::TrainingState Loop::facts() const {
  checkpoint::TrainingState facts;
  facts.step = step_;
  facts.optimizer = wire::to_json(task_.optimizer.kind).get<std::string>();
  facts.schedule = {{"peak", task_.optimizer.rate},
                    {"warmup_steps", static_cast<double>(task_.optimizer.warmup_steps)},
                    {"steps", static_cast<double>(task_.steps)}};
  if (scales_loss()) facts.loss_scale = checkpoint::LossScale{scaler_.scale(), scaler_.state().clean_steps};
  facts.seed = place_.seed;
  facts.cursor = {cursor_.epoch, cursor_.unit};
  facts.settings_hash = task_.identity;
  facts.muster_version = MUSTER_VERSION;
  facts.more = {{"skipped", static_cast<double>(step_ - updates_)}};
  facts.last_steps = {last_steps_.begin(), last_steps_.end()};
  return facts;
}

at::Tensor Loop::compute(const data::LoadedStep& loaded, PlainGradients* plain) {
  strategy_->begin_step();
  ran_out_ = false;
  const double scale = scales_loss() ? scaler_.scale() : 1;
  const PassOptions options{scale / static_cast<double>(std::max<std::int64_t>(loaded.trained_tokens, 1)),
                      recompute_of(pass_size_.recompute)};
  at::Tensor sum = no_losses(place_.device);
  model::ParameterAccess& access = plain ? static_cast<model::ParameterAccess&>(*plain) : *strategy_;
  for (const data::MicroBatch& pass : loaded.passes) {
    if (!plain && &pass == &loaded.passes.back()) strategy_->begin_last_pass();
    if (ran_out_ || pass.trained_rows.empty())
      stand_by(access, model::PassKind::learn, place_.device);
    else
      ran_out_ = !learn(pass, options, access, sum);
  }
  if (!plain) strategy_->finish_gradients();
  return sum;
}

bool Loop::learn(const data::MicroBatch& pass, const PassOptions& options, model::ParameterAccess& access, at::Tensor& losses) {
  try {
    losses += objective_->learn(pass, options, access);
    return true;
  } catch (const c10::OutOfMemoryError&) {
    // First release what the pass held.
  }
  abandon_pass(access, place_.device);
  return false;
}

Result<void> Loop::shrink() {
  if (!pass_size_.shrink())
    return Error{
        Error::Kind::refused,
        fmt::format("step {}: one sequence at a time, with everything computed again, runs out of memory", step_ + 1),
        "shorten training.sequence_length, or spread the state over more GPUs (--strategy fsdp)"};
  if (ran_out_) place_.tell(wire::PassReduced{step_ + 1, pass_size_.micro_batch, pass_size_.recompute});
  evaluation_->take_at_once(pass_size_.micro_batch);
  release_cached_memory(place_.device);
  return {};
}

// Losses, whether a rank leaves and whether one ran out of memory, in one exchange.
StepOutcome Loop::outcome(const data::LoadedStep& loaded, const at::Tensor& loss_sum) {
  constexpr std::int64_t leaving = loss_parts, short_of_memory = loss_parts + 1;
  at::Tensor shared = at::zeros({loss_parts + 2}, loss_sum.options());
  shared.narrow(0, 0, loss_parts).copy_(loss_sum);
  if (place_.asked_to_leave()) shared[leaving] = 1;
  if (ran_out_) shared[short_of_memory] = 1;
  place_.ranks.all_reduce(shared);
  const double squares = squared_norm(*strategy_, shard_learning());
  const at::Tensor overflow = strategy_->shards().front().gradient.overflow;
  const at::Tensor host = shared.cpu();
  // Before anything is done with numbers, some of which may never have arrived.
  place_.ranks.check();
  strategy_->check_ranks();
  StepOutcome found;
  const LossSum loss = loss_of(host.narrow(0, 0, loss_parts));
  found.loss = loss.bad > 0 ? std::numeric_limits<double>::quiet_NaN() : loss.mean(loaded.trained_tokens);
  found.leaves = host[leaving].item<std::int64_t>() > 0;
  found.ran_out = host[short_of_memory].item<std::int64_t>() > 0;
  const double scale = scales_loss() ? scaler_.scale() : 1;
  found.norm = std::sqrt(squares) / scale;
  found.finite = std::isfinite(found.norm) && std::isfinite(found.loss) &&
                 (!overflow.defined() || overflow.item<std::int64_t>() == 0);
  return found;
}

void Loop::update(const StepOutcome& outcome, double rate) {
  if (!outcome.finite) return;
  const double most = task_.optimizer.max_gradient_norm;
  const double clip = std::min(1.0, most / (outcome.norm + 1e-6));
  ++updates_;
  clock_.updating();
  checkpoints_.before_change();
  optimizer_->step(updates_, rate, clip / (scales_loss() ? scaler_.scale() : 1));
  strategy_->publish();
  clock_.updated();
}

// The passes once more, without the other ranks' gradients: a rank that finds something bad of its own is named.
Error Loop::explain_bad(const data::LoadedStep& loaded, const StepOutcome& outcome) {
  PlainGradients gradients(*strategy_, place_.device);
  const at::Tensor loss = compute(loaded, &gradients);
  const BadTensor own = find_nonfinite(state_, *strategy_, loss_of(loss).bad > 0, gradients);
  const auto found = agree_on_bad(own, place_.ranks, place_.device);
  const std::string where =
      found ? fmt::format("on rank {}: {}", found->rank, describe(found->bad, state_)) : "on no rank by itself";
  return {Error::Kind::refused,
          fmt::format("step {}: the {} is not a number, {}", step_ + 1,
                      std::isfinite(outcome.loss) ? "gradient" : "loss", where),
          "lower training.learning_rate, check the data, or go on from an earlier checkpoint with other settings; a "
          "restart would only repeat it"};
}

void Loop::tell_step(const data::LoadedStep& loaded, const StepOutcome& outcome, double rate) {
  const StepClock::Told time = clock_.tell();
  wire::TrainStep told;
  told.step = step_;
  told.epoch =
      static_cast<double>(loaded.begin.epoch) + static_cast<double>(loaded.begin.unit + loaded.units) /
                                                    static_cast<double>(std::max<std::int64_t>(loaded.epoch_units, 1));
  told.loss = outcome.loss;
  told.learning_rate = rate;
  if (std::isfinite(outcome.norm)) told.gradient_norm = outcome.norm;
  told.tokens = loaded.rows;
  told.trained = loaded.trained_tokens;
  told.seconds = time.seconds;
  told.parts = time.parts;
  told.skipped = !outcome.finite;
  if (scales_loss()) told.loss_scale = scaler_.scale();
  last_steps_.push_back(
      {told.step, told.epoch, told.loss, told.learning_rate, told.gradient_norm, told.tokens, told.seconds});
  if (last_steps_.size() > steps_in_a_checkpoint) last_steps_.pop_front();
  if (place_.ranks.rank() == 0) place_.tell(told);
}

void Loop::tell_memory(bool now) {
  if (!now && Clock::now() - told_memory_ < between_memory_reports) return;
  told_memory_ = Clock::now();
  place_.tell(memory_use(place_.device, step_));
}

Result<void> Loop::tell_saved(bool wait) {
  const auto saved = checkpoints_.completed(wait);
  if (!saved) return saved.error();
  if (*saved && place_.ranks.rank() == 0) place_.tell(**saved);
  return {};
}

Result<void> Loop::evaluate() {
  if (evaluated_ == step_ || evaluation_->empty()) return {};
  evaluated_ = step_;
  EvaluationResult result;
  try {
    result = evaluation_->measure();
  } catch (const c10::OutOfMemoryError&) {
    return Error{Error::Kind::refused,
                 fmt::format("after step {}: the evaluation runs out of memory, one sequence at a time", step_),
                 "evaluate on shorter rows, or spread the state over more GPUs (--strategy fsdp)"};
  }
  strategy_->check_ranks();
  if (place_.ranks.rank() != 0) return {};
  result.all.step = step_;
  if (!last_steps_.empty() && last_steps_.back().step == step_) {
    if (std::isfinite(result.all.loss.value_or(0))) last_steps_.back().eval_loss = result.all.loss;
    last_steps_.back().exact_match = result.all.exact_match();
  }
  for (const GivenAnswer& answer : result.answers) {
    if (std::ssize(result.all.samples) == task_.evaluation.samples) break;
    result.all.samples.push_back(evaluation_->answered(answer));
  }
  place_.tell(result.all);
  return {};
}

Result<void> Loop::after_step(bool leaves) {
  const bool last = step_ == task_.steps;
  if (last || (evaluation_is_due(step_) && !leaves))
    if (auto done = evaluate(); !done) return done;
  const bool finished = last && task_.save_at_end == spec::FinalSave::all;
  if (finished || leaves || (task_.save_every && step_ % *task_.save_every == 0)) {
    if (auto told = tell_saved(true); !told) return told;  // one at a time
    if (auto saved = checkpoints_.save(facts()); !saved) return saved;
  }
  if (auto told = tell_saved(false); !told) return told;
  tell_memory(last);
  if (task_.clear_cache_every > 0 && step_ % task_.clear_cache_every == 0) release_cached_memory(place_.device);
  return {};
}

Result<Ending> Loop::run() {
  data::BatchLoader steps = loader();
  told_memory_ = Clock::now();
  clock_.begin();
  bool leaves = false;
  // A run that was asked to leave did so without the evaluation of its last step, which takes long.
  if (step_ > 0 && step_ < task_.steps && evaluation_is_due(step_))
    if (auto done = evaluate(); !done) return done.error();
  while (step_ < task_.steps && !leaves) {
    clock_.loading();
    const data::LoadedStep loaded = steps.next();
    clock_.loaded();
    const at::Tensor loss = compute(loaded);
    const StepOutcome found = outcome(loaded, loss);
    clock_.computed(strategy_->take_communication_time());
    if (found.ran_out) {
      if (auto shrunk = shrink(); !shrunk) return shrunk.error();
      steps = loader();
      continue;
    }
    if (!found.finite && !scales_loss()) return explain_bad(loaded, found);
    const double rate = schedule_.rate(step_ + 1);
    update(found, rate);
    ++step_;
    cursor_ = loaded.end;
    tell_step(loaded, found, rate);
    if (scales_loss()) scaler_.update(found.finite);
    leaves = found.leaves;
    if (auto done = after_step(leaves); !done) return done.error();
  }
  if (auto done = finish(); !done) return done.error();
  return step_ < task_.steps ? Ending::left : Ending::done;
}

Result<void> Loop::finish() {
  if (step_ == task_.steps)
    if (auto done = evaluate(); !done) return done;
  if (auto told = tell_saved(true); !told) return told;
  if (step_ == task_.steps && task_.save_at_end != spec::FinalSave::nothing && state_.place().copy == 0)
    if (auto done = export_weights(task_, description_.shape, transfer_, {place_.ranks.rank(), place_.tell}); !done)
      return done;
  // What this rank sent has arrived; others may take longer to write, and need not be waited for.
  parallel::StreamMark::of_current_stream(place_.device).wait();
  place_.ranks.check();
  return {};
}

}  // namespace

Result<std::unique_ptr<Trainer>> Trainer::make(const TrainTask& given, TrainerContext place) {
  TrainTask task = given;
  if (auto settled = agree_on_task(task, place.seed, place.ranks, place.device); !settled) return settled.error();
  const spec::ModelSearch search = spec::model_search_from_environment();
  auto description = spec::read_model(task.model, search, std::nullopt);
  if (!description) return description.error();
  auto text = chat::read_model_text(task.model, search);
  if (!text) return text.error();
  auto ops = tensor::make_device_ops({place.device, place.threads, task.attention, task.deterministic});
  if (!ops) return ops.error();
  auto dataset = data::Dataset::open(task.data, data::Verification::structure);
  if (!dataset) return dataset.error();
  auto ranks = StateRanks::join(task.sharding, place.ranks, place.join_some);
  if (!ranks) return ranks.error();
  std::optional<tensor::DeviceOps> host;
  if (ranks->in_host_memory(place.device)) {
    auto made = tensor::make_device_ops({.threads = place.threads});
    if (!made) return made.error();
    host.emplace(std::move(*made));
  }
  auto loop = std::make_unique<Loop>(task, std::move(place), std::move(*ranks), std::move(*description),
                                     std::move(*text), std::move(*ops), std::move(host), std::move(*dataset));
  if (auto begun = loop->begin(); !begun) return begun.error();
  return std::unique_ptr<Trainer>(std::move(loop));
}

}  // namespace muster::train
