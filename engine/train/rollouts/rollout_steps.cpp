#include "train/rollouts/rollout_steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/bit_mix.hpp"
#include "data/batch_schedule.hpp"
#include "spec/objective_metrics.hpp"
#include "train/lockstep_sampler.hpp"
#include "train/objective_pass.hpp"
#include "train/objectives/objectives.hpp"
#include "train/objectives/value_objective.hpp"
#include "train/progress_sign.hpp"
#include "train/rollouts/advantages.hpp"
#include "train/rollouts/answer_judge.hpp"
#include "train/rollouts/answer_passes.hpp"
#include "train/rollouts/episodes.hpp"
#include "train/rollouts/prompts.hpp"
#include "train/rollouts/reference_model.hpp"
#include "train/rollouts/returns.hpp"
#include "train/rollouts/reward_model.hpp"
#include "train/rollouts/rollout_exchange.hpp"
#include "train/rollouts/rollout_log.hpp"

namespace muster::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point moment) {
  return std::chrono::duration<double>(Clock::now() - moment).count();
}

// Whether a step found the policy further from what its answers were drawn by than a round may go on.
bool is_too_far(const spec::CriticOptions& critic, std::span<const double> metrics) {
  const auto names = spec::metrics_beside_loss(spec::Algorithm::ppo);
  const auto place = std::ranges::find(names, "policy/kl_avg") - names.begin();
  return critic.most_change && metrics[static_cast<std::size_t>(place) + 1] > *critic.most_change;
}

// A round, and once it is settled what follows from its answers and what they earned.
struct HeldRound {
  Round round;
  data::StepUnits taken = {};  // its prompts, of all draws
  bool is_asked = false;       // the judge has its answers
  bool is_written = false;     // with what they earned
  bool is_settled = false;
  std::vector<std::uint32_t> trained = {};  // of its answers
  std::vector<wire::NamedNumber> metrics = {};
};

// Whether the weights that draw a round are there.
enum class Weights { present, gone };

double mean_turns(const std::vector<Rollout>& answers) {
  double turns = 0;
  for (const Rollout& answer : answers) turns += static_cast<double>(answer.turn_rewards.size());
  return turns / std::max(static_cast<double>(answers.size()), 1.0);
}

class RolloutSteps final : public StepSource {
 public:
  RolloutSteps(const wire::TrainTask& task, const TrainerContext& context, TrainedModel& trained, Prompts prompts,
               std::unique_ptr<ReferenceModel> reference, TrainedModel* critic)
      : task_(task),
        policy_(*task.policy),
        context_(context),
        text_(trained.text()),
        prompts_(std::move(prompts)),
        reference_(std::move(reference)),
        expectation_(context, task.micro_batch),
        critic_(critic != nullptr ? *critic : trained),
        passes_(critic != nullptr
                    ? make_value_objective(*task.critic)
                    : make_objective(task.algorithm, {.policy = task.policy, .critic = task.critic}),
                critic_.model(), critic_.ops(), task.pinned),
        sampler_(trained.model(), trained.ops(), task.sampled_at_once, "answer"),
        schedule_(std::vector<std::uint32_t>(prompts_.questions.size(), 1), {context.seed, true, false, 0, 1},
                  prompts_of_draw()) {
    for (const Question& question : prompts_.questions)
      longest_ = std::max(longest_, std::ssize(question.tokens) + question.most_tokens);
  }

  Result<SourcedStep> next(std::int64_t steps_left) override {
    SourcedStep step;
    if (!present_ || present_->round.number != cursor_.round)
      if (auto begun = begin_round(step, steps_left); !begun) return begun.error();
    fill(step.loaded);
    step.metrics = present_->metrics;
    return step;
  }

  data::BatchCursor settle(const data::LoadedStep& step, std::span<const double> metrics) override {
    const bool ends = task_.critic && is_too_far(*task_.critic, metrics);
    return cursor_ = ends ? after(*present_, cursor_) : step.end;
  }

  void seek(data::BatchCursor cursor, std::int64_t micro_batch) override {
    cursor_ = cursor;
    micro_batch_ = micro_batch;
  }

  // What says what answers earn, one of the two. Before the first step.
  void judge_by(reward::Judge judge, std::stop_source stop) {
    judge_.emplace(context_, text_, policy_, prompts_, std::move(judge), std::move(stop));
  }
  Result<void> make_episodes() {
    auto made = Episodes::make(*task_.environment, text_, prompts_.questions, policy_.stop_tokens, context_.seed);
    if (!made) return made.error();
    episodes_ = std::move(*made);
    return {};
  }

 private:
  Result<void> begin_round(SourcedStep& step, std::int64_t steps_left);
  // The round that begins there: read where it must be or may be, else sampled.
  Result<HeldRound> round_at(const data::BatchCursor& begin, Weights weights, SourcedStep& step);
  // Gives it what its answers earned, where they have not got that yet, and what follows; writes it down.
  Result<void> settle_round(HeldRound& held, const data::BatchCursor& begin, SourcedStep& step);
  // What was written down for it and is still what its weights would draw; absent: nothing. Takes its prompts.
  Result<std::optional<Round>> kept_round(const data::BatchCursor& begin, Weights weights, data::StepUnits& taken);
  Result<Round> sampled_round(const data::BatchCursor& begin, data::StepUnits& taken, SourcedStep& step);
  // Answers to these prompts, of all ranks.
  Result<std::vector<Rollout>> sample(std::int64_t round, const data::StepUnits& taken, SourcedStep& step);
  // The next prompts of the data's order, as many as a draw has; adds them to those of the round.
  data::StepUnits take(data::StepUnits& of_round);
  bool is_full(const Round& round) const;
  // What is expected of the answers from each of their tokens on.
  void expect(std::vector<Rollout>& answers);
  void compare(std::vector<Rollout>& answers, const data::BatchCursor& begin) const;
  double divergence_weight(const data::BatchCursor& begin) const { return begin.divergence_weight.value_or(policy_.beta); }
  // Whether answers can be judged while something else is computed: not where an environment does it between their
  // turns, nor where it follows from rewards how many are drawn.
  bool judges_beside() const { return judge_ && policy_.draws == 1; }
  void ask_about(HeldRound& held);
  // Waits; then they have what they earned.
  Result<void> finish_judging(std::vector<Rollout>& answers, SourcedStep& step);
  Result<void> keep(const Round& round) const;
  void fill(data::LoadedStep& step) const;
  std::int64_t batches_of(const HeldRound& held) const {
    return (std::ssize(held.trained) + task_.batch_size - 1) / task_.batch_size;
  }
  std::int64_t updates_of(const HeldRound& held) const { return batches_of(held) * policy_.iterations; }
  // Where the round after this one begins.
  data::BatchCursor after(const HeldRound& held, const data::BatchCursor& begin) const;
  std::int64_t prompts_of_draw() const { return policy_.answers / policy_.group; }
  std::uint64_t seed_of_round(std::int64_t round) const {
    return mix_bits(context_.seed + static_cast<std::uint64_t>(round + 1) * golden_step);
  }
  // As metrics and files call what judged.
  std::vector<std::string_view> names() const {
    return judge_ ? judge_->names() : std::vector{environment::name_of(task_.environment->kind)};
  }
  generate::SamplerOptions sampler_options(std::int64_t round, std::int64_t turn) const;
  // This rank's answers to its share of the prompts; failure: what was drawn from numbers that are none.
  Result<std::vector<Rollout>> draw(std::int64_t round, const data::StepUnits& taken, Result<void>& failure);

  const wire::TrainTask& task_;
  const spec::PolicyOptions& policy_;
  const TrainerContext& context_;
  const chat::ModelText& text_;
  Prompts prompts_;
  // The one that is trained on, and, where rounds are off by one, the next. They outlive the judge, which reads them.
  std::optional<HeldRound> present_, next_;
  std::optional<AnswerJudge> judge_;  // absent: the environment judges
  std::unique_ptr<Episodes> episodes_;  // absent: each answer is judged by itself
  std::unique_ptr<ReferenceModel> reference_;  // absent: the policy is held to nothing
  AnswerScoring expectation_;
  TrainedModel& critic_;  // what says what is expected, where anything is
  ObjectivePass passes_;
  LockstepSampler sampler_;
  data::BatchSchedule schedule_;
  std::int64_t longest_ = 0;  // prompt and answer together
  std::int64_t micro_batch_ = 1;
  data::BatchCursor cursor_;
};

Result<void> RolloutSteps::begin_round(SourcedStep& step, std::int64_t steps_left) {
  const bool is_inside = cursor_.update > 0, is_drawn_before = policy_.off_by > 0 && cursor_.round > 0;
  if (!next_ || next_->round.number != cursor_.round) {
    auto found = round_at(cursor_, is_inside || is_drawn_before ? Weights::gone : Weights::present, step);
    if (!found) return found.error();
    next_ = std::move(*found);
  }
  present_ = std::exchange(next_, std::nullopt);
  ask_about(*present_);
  if (policy_.off_by == 0 || !judges_beside())
    if (auto settled = settle_round(*present_, cursor_, step); !settled) return settled;
  if (policy_.off_by == 0) return {};
  auto found = round_at(after(*present_, cursor_), is_inside ? Weights::gone : Weights::present, step);
  if (!found) return found.error();
  next_ = std::move(*found);
  if (auto settled = settle_round(*present_, cursor_, step); !settled) return settled;
  if (next_->round.is_judged) return settle_round(*next_, after(*present_, cursor_), step);
  if (cursor_.update + steps_left > updates_of(*present_)) ask_about(*next_);
  return {};
}

data::BatchCursor RolloutSteps::after(const HeldRound& held, const data::BatchCursor& begin) const {
  const auto& answers = held.round.answers;
  data::BatchCursor next{held.taken.end.epoch, held.taken.end.unit, held.round.number + 1, 0};
  // What follows from rewards is not known yet, and nothing that is drawn depends on it.
  if (!held.round.is_judged) return next;
  next.seen = rewards_after(begin.seen, answers);
  if (task_.critic && task_.critic->divergence_target)
    next.divergence_weight = next_divergence_weight(answers, *task_.critic, divergence_weight(begin));
  return next;
}

void RolloutSteps::compare(std::vector<Rollout>& answers, const data::BatchCursor& begin) const {
  if (task_.critic)
    give_token_advantages(answers, *task_.critic, divergence_weight(begin));
  else
    give_advantages(answers, policy_, begin.seen);
}

void RolloutSteps::expect(std::vector<Rollout>& answers) {
  expectation_.run(
      answers, prompts_.tokens, critic_.model().home(),
      [&](const data::MicroBatch& batch) { return passes_.scores(batch); },
      [](Rollout& answer, std::span<const float> numbers) { answer.values.assign(numbers.begin(), numbers.end()); });
}

Result<HeldRound> RolloutSteps::round_at(const data::BatchCursor& begin, Weights weights, SourcedStep& step) {
  HeldRound found;
  auto kept = kept_round(begin, weights, found.taken);
  if (!kept) return kept.error();
  if (*kept) {
    found.round = std::move(**kept);
    found.is_written = found.round.is_judged;
    return found;
  }
  auto sampled = sampled_round(begin, found.taken, step);
  if (!sampled) return sampled.error();
  found.round = std::move(*sampled);
  // The weights that drew it are soon gone, and its rewards are waited for only then.
  if (policy_.off_by > 0 && !found.round.is_judged)
    if (auto written = keep(found.round); !written) return written.error();
  return found;
}

Result<void> RolloutSteps::settle_round(HeldRound& held, const data::BatchCursor& begin, SourcedStep& step) {
  if (std::exchange(held.is_settled, true)) return {};
  Round& round = held.round;
  if (!round.is_judged) {
    ask_about(held);
    if (auto judged = finish_judging(round.answers, step); !judged) return judged;
    round.is_judged = true;
  }
  compare(round.answers, begin);
  held.trained = trained_answers(round.answers, policy_, prompts_of_draw());
  std::int64_t prompt_tokens = 0;
  for (const Rollout& answer : round.answers)
    prompt_tokens += std::ssize(prompts_.tokens[static_cast<std::size_t>(answer.prompt)]);
  held.metrics = metrics_of(round, task_.algorithm, policy_.group, prompt_tokens, names());
  if (episodes_) held.metrics.push_back({std::string(spec::turns_metric), mean_turns(round.answers)});
  if (task_.critic)
    std::ranges::move(earnings_of(round.answers, *task_.critic, divergence_weight(begin)),
                      std::back_inserter(held.metrics));
  return std::exchange(held.is_written, true) ? Result<void>() : keep(round);
}

Result<Round> RolloutSteps::sampled_round(const data::BatchCursor& begin, data::StepUnits& taken, SourcedStep& step) {
  Round round{begin.round, {}, !judges_beside()};
  for (std::int64_t draw = 0; draw < policy_.draws && !is_full(round); ++draw) {
    auto sampled = sample(begin.round, take(taken), step);
    if (!sampled) return sampled.error();
    if (judge_ && round.is_judged) {
      judge_->start(*sampled);
      if (auto judged = finish_judging(*sampled, step); !judged) return judged.error();
    }
    std::ranges::move(*sampled, std::back_inserter(round.answers));
    if (policy_.draws > 1) compare(round.answers, begin);
  }
  return round;
}

data::StepUnits RolloutSteps::take(data::StepUnits& of_round) {
  data::StepUnits next = schedule_.next();
  if (of_round.units.empty()) {
    of_round = next;
  } else {
    of_round.end = next.end;
    of_round.units.insert(of_round.units.end(), next.units.begin(), next.units.end());
  }
  return next;
}

bool RolloutSteps::is_full(const Round& round) const {
  return teaching_groups(round.answers, policy_.group) >= prompts_of_draw();
}

// Rank 0 alone is sure to have the run's folder.
Result<std::optional<Round>> RolloutSteps::kept_round(const data::BatchCursor& begin, Weights weights,
                                                      data::StepUnits& taken) {
  const bool must_be_read = weights == Weights::gone;
  const auto path = rollout_log_path(task_.run_folder, begin.round);
  std::error_code ignored;
  Round found{begin.round, {}};
  Result<void> read;
  if (context_.ranks.rank() == 0 && (must_be_read || (task_.exact && std::filesystem::exists(path, ignored)))) {
    auto opened = read_rollouts(path);
    if (opened)
      found = std::move(*opened);
    else if (must_be_read)
      read = opened.error();
  }
  if (auto agreed = agree_on_failure(read, context_.ranks, context_.device); !agreed) return agreed.error();
  found.answers = rollouts_of_first_rank(found.answers, context_.ranks, context_.device);
  found.number = begin.round;
  found.is_judged = !is_true_anywhere(!found.is_judged, context_.ranks, context_.device);
  schedule_.seek({begin.epoch, begin.unit});
  if (found.answers.empty() && !must_be_read) return std::optional<Round>();
  std::size_t next = 0;
  const auto is_next = [&](std::uint32_t prompt, std::int64_t sample) {
    return next < found.answers.size() && found.answers[next].prompt == prompt && found.answers[next].sample == sample;
  };
  bool fits = true;
  for (std::int64_t draw = 0; fits && next < found.answers.size() && draw < policy_.draws; ++draw)
    for (const data::Unit& unit : take(taken).units)
      for (std::int64_t i = 0; fits && i < policy_.group; ++i, ++next) fits = is_next(unit.front(), i);
  if (fits && next == found.answers.size() && next > 0) return std::optional(std::move(found));
  schedule_.seek({begin.epoch, begin.unit});
  taken = {};
  if (!must_be_read) return std::optional<Round>();
  return Error{Error::Kind::bad_input, fmt::format("{} has answers to other prompts than this round's", path.string()),
               "put the run's own file back, or resume from a checkpoint at the beginning of a round"};
}

generate::SamplerOptions RolloutSteps::sampler_options(std::int64_t round, std::int64_t turn) const {
  generate::SamplerOptions options;
  options.longest = longest_;
  options.rules = {.temperature = policy_.temperature,
                   .top_k = policy_.top_k,
                   .top_p = policy_.top_p,
                   .min_p = policy_.min_p,
                   .log_probabilities = true};
  options.generator.seed = seed_of_round(round);
  // A place of an answer is drawn from one number, so that each turn needs numbers of its own.
  if (turn > 0) options.generator.seed = mix_bits(options.generator.seed + static_cast<std::uint64_t>(turn) * golden_step);
  options.generator.end_tokens = text_.end_tokens();
  for (const std::int64_t token : policy_.stop_tokens)
    options.generator.end_tokens.push_back(static_cast<std::int32_t>(token));
  return options;
}

Result<std::vector<Rollout>> RolloutSteps::draw(std::int64_t round, const data::StepUnits& taken, Result<void>& failure) {
  std::vector<generate::Request> requests;
  const auto ranks = static_cast<std::size_t>(context_.ranks.size());
  for (auto place = static_cast<std::size_t>(context_.ranks.rank()); place < taken.units.size(); place += ranks) {
    const std::uint32_t prompt = taken.units[place].front();
    const Question& question = prompts_.questions[prompt];
    generate::Request& request = requests.emplace_back(generate::Request{question.tokens, {}});
    for (std::int64_t i = 0; i < policy_.group; ++i) request.branches.push_back({prompt, i, question.most_tokens});
  }
  const auto complete = [&](const std::vector<generate::Request>& asked, std::int64_t turn) {
    std::int64_t count = 0;
    for (const generate::Request& request : asked) count += std::ssize(request.branches);
    ProgressSign sign(context_.tell, "sampling answers", count);
    auto completions = sampler_.complete(asked, sampler_options(round, turn), context_.ranks,
                                         [&](std::int64_t done) { sign.give(done); });
    for (const generate::Completion& given : completions)
      if (std::ranges::any_of(given.log_probabilities, [](float value) { return std::isnan(value); }))
        failure = Error{Error::Kind::refused,
                        fmt::format("round {}: the model's logits are not numbers while it answers prompt {}",
                                    round + 1, given.index + 1),
                        "lower training.learning_rate, or go on from an earlier checkpoint with other settings"};
    return completions;
  };
  if (episodes_) return episodes_->play(std::move(requests), complete, context_.ranks, context_.device);
  std::vector<Rollout> own;
  for (generate::Completion& given : complete(requests, 0))
    own.push_back({.prompt = given.index,
                   .sample = given.sample,
                   .tokens = std::move(given.tokens),
                   .log_probabilities = std::move(given.log_probabilities),
                   .ended = given.finish == generate::Finish::stop});
  return own;
}

Result<std::vector<Rollout>> RolloutSteps::sample(std::int64_t round, const data::StepUnits& taken, SourcedStep& step) {
  const auto began = Clock::now();
  Result<void> failure;
  auto drawn = draw(round, taken, failure);
  if (!drawn) return drawn.error();  // on every rank
  std::vector<Rollout>& own = *drawn;
  if (reference_) reference_->score(own, prompts_.tokens);
  if (task_.critic) expect(own);
  if (auto agreed = agree_on_failure(failure, context_.ranks, context_.device); !agreed) return agreed.error();
  std::vector<Rollout> all = gather_rollouts(own, context_.ranks, context_.device);
  std::vector<std::size_t> places(prompts_.questions.size());
  for (std::size_t place = 0; place < taken.units.size(); ++place) places[taken.units[place].front()] = place;
  std::ranges::sort(all, {}, [&](const Rollout& rollout) {
    return std::pair(places[static_cast<std::size_t>(rollout.prompt)], rollout.sample);
  });
  step.sampling = step.sampling.value_or(0) + seconds_since(began);
  return all;
}

void RolloutSteps::ask_about(HeldRound& held) {
  if (held.round.is_judged || std::exchange(held.is_asked, true)) return;
  judge_->start(held.round.answers);
}

Result<void> RolloutSteps::finish_judging(std::vector<Rollout>& answers, SourcedStep& step) {
  const auto began = Clock::now();
  auto judged = judge_->finish(answers);
  step.judging = step.judging.value_or(0) + seconds_since(began);
  return judged;
}

// By rank 0; all call it.
Result<void> RolloutSteps::keep(const Round& round) const {
  const RolloutTexts texts{
      [&](const Rollout& rollout) { return prompts_.questions[static_cast<std::size_t>(rollout.prompt)].prompt; },
      [&](const Rollout& rollout) { return answer_text(rollout, text_, policy_.stop_tokens); }, names(),
      [&](const Rollout& rollout) { return episodes_->turns_of(rollout); }};
  const Result<void> written = context_.ranks.rank() > 0
                                   ? Result<void>()
                                   : write_rollouts(rollout_log_path(task_.run_folder, round.number), round, texts);
  return agree_on_failure(written, context_.ranks, context_.device);
}

void RolloutSteps::fill(data::LoadedStep& step) const {
  const Round& round = present_->round;
  const data::StepUnits& taken = present_->taken;
  const auto count = static_cast<std::uint32_t>(present_->trained.size());
  const std::int64_t batches = batches_of(*present_), updates = updates_of(*present_);
  const std::int64_t iteration = cursor_.update / batches, batch = cursor_.update % batches;
  std::vector<std::uint32_t> order = data::shuffled_numbers(count, seed_of_round(round.number), iteration);
  for (std::uint32_t& number : order) number = present_->trained[number];
  const auto first = static_cast<std::size_t>(batch * task_.batch_size);
  const std::size_t size = std::min(order.size() - first, static_cast<std::size_t>(task_.batch_size));
  step.begin = cursor_;
  step.end = cursor_;
  ++step.end.update;
  if (step.end.update == updates) step.end = after(*present_, cursor_);
  const double done = static_cast<double>(cursor_.update + 1) / static_cast<double>(updates);
  step.epochs = static_cast<double>(taken.begin.epoch) +
                (static_cast<double>(taken.begin.unit) + done * static_cast<double>(taken.units.size())) /
                    static_cast<double>(std::max<std::int64_t>(taken.epoch_units, 1));
  step.is_fresh = cursor_.update == 0 && (policy_.off_by == 0 || round.number == 0);
  fill_passes(step, {round.answers, std::span(order).subspan(first, size), prompts_.tokens, policy_.masks_cut},
              {context_.ranks.size(), context_.ranks.rank(), micro_batch_});
}

Result<void> judge_by_rewards(RolloutSteps& steps, const wire::TrainTask& task, const TrainerContext& context,
                              tensor::DeviceOps& ops) {
  std::unique_ptr<reward::Part> model;
  if (task.judge) {
    auto made = make_reward_model(task, context, ops);
    if (!made) return made.error();
    model = std::move(*made);
  }
  std::stop_source stop;
  auto judge = reward::make_judge(*task.reward, {}, std::move(model), stop.get_token());
  if (!judge) return judge.error();
  steps.judge_by(std::move(*judge), std::move(stop));
  return {};
}

}  // namespace

Result<std::unique_ptr<StepSource>> make_rollout_steps(const wire::TrainTask& task, const TrainerContext& context,
                                                       TrainedModel& trained, TrainedModel* critic) {
  const std::int64_t longest = std::min(task.sequence_length, trained.model().config().positions);
  auto prompts = read_prompts(task, trained.text(), longest);
  if (!prompts) return prompts.error();
  std::unique_ptr<ReferenceModel> reference;
  if (task.policy->beta > 0) {
    auto made = ReferenceModel::make(task, context, trained);
    if (!made) return made.error();
    reference = std::move(*made);
  }
  auto steps = std::make_unique<RolloutSteps>(task, context, trained, std::move(*prompts), std::move(reference),
                                              critic);
  const auto ready = task.environment ? steps->make_episodes() : judge_by_rewards(*steps, task, context, trained.ops());
  if (!ready) return ready.error();
  return std::unique_ptr<StepSource>(std::move(steps));
}

}  // namespace muster::train
