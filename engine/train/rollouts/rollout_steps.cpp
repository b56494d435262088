#include "train/rollouts/rollout_steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/bit_mix.hpp"
#include "data/batch_schedule.hpp"
#include "reward/judge.hpp"
#include "train/lockstep_sampler.hpp"
#include "train/objectives/objectives.hpp"
#include "train/progress_sign.hpp"
#include "train/question_evaluation.hpp"
#include "train/rollouts/advantages.hpp"
#include "train/rollouts/answer_passes.hpp"
#include "train/rollouts/episodes.hpp"
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
bool is_too_far(const spec::CriticOptions& critic, std::span<const std::string_view> names,
                std::span<const double> metrics) {
  const auto found = std::ranges::find(names, "policy/kl_avg");
  return critic.most_change && metrics[static_cast<std::size_t>(found - names.begin())] > *critic.most_change;
}

// The prompts of a run, as they are sampled from, judged and trained on.
struct Prompts {
  std::vector<Question> questions;
  std::vector<reward::Question> judged;
  std::vector<std::vector<std::int32_t>> tokens;
};

// A round with what follows from its answers and from nothing else.
struct JudgedRound {
  Round round;
  data::StepUnits taken;               // its prompts, of all draws
  std::vector<std::uint32_t> trained;  // of its answers
  std::vector<wire::NamedNumber> metrics;
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
               std::optional<reward::Judge> judge, std::unique_ptr<ReferenceModel> reference)
      : task_(task),
        policy_(*task.policy),
        context_(context),
        text_(trained.text()),
        prompts_(std::move(prompts)),
        judge_(std::move(judge)),
        reference_(std::move(reference)),
        expectation_(context, task.micro_batch),
        model_(trained.model()),
        passes_(make_objective(task.algorithm, {.policy = task.policy, .critic = task.critic}), trained.model(), trained.ops(),
                task.pinned),
        sampler_(trained.model(), trained.ops(), task.sampled_at_once, "answer"),
        schedule_(std::vector<std::uint32_t>(prompts_.questions.size(), 1), {context.seed, true, false, 0, 1},
                  prompts_of_draw()) {
    for (const Question& question : prompts_.questions)
      longest_ = std::max(longest_, std::ssize(question.tokens) + question.most_tokens);
  }

  Result<SourcedStep> next() override {
    SourcedStep step;
    if (!present_ || present_->round.number != cursor_.round)
      if (auto begun = begin_round(step); !begun) return begun.error();
    fill(step.loaded);
    step.metrics = present_->metrics;
    return step;
  }

  data::BatchCursor settle(const data::LoadedStep& step, std::span<const double> metrics) override {
    const bool ends = task_.critic && is_too_far(*task_.critic, passes_.objective().metrics(), metrics);
    return cursor_ = ends ? after(*present_, cursor_) : step.end;
  }

  void seek(data::BatchCursor cursor, std::int64_t micro_batch) override {
    cursor_ = cursor;
    micro_batch_ = micro_batch;
  }

  // Where the task has an environment. Before the first step.
  Result<void> make_episodes() {
    auto made = Episodes::make(*task_.environment, text_, prompts_.questions, policy_.stop_tokens, context_.seed);
    if (!made) return made.error();
    episodes_ = std::move(*made);
    return {};
  }

 private:
  Result<void> begin_round(SourcedStep& step);
  // The round that begins there: read where it must be or may be, else sampled.
  Result<JudgedRound> round_at(const data::BatchCursor& begin, Weights weights, SourcedStep& step);
  // What was written down for it and is still what its weights would draw; absent: nothing. Takes its prompts.
  Result<std::optional<Round>> kept_round(const data::BatchCursor& begin, Weights weights, data::StepUnits& taken);
  Result<Round> sampled_round(const data::BatchCursor& begin, data::StepUnits& taken, SourcedStep& step);
  // Answers to these prompts, judged.
  Result<std::vector<Rollout>> sample(std::int64_t round, const data::StepUnits& taken, SourcedStep& step);
  // The next prompts of the data's order, as many as a draw has; adds them to those of the round.
  data::StepUnits take(data::StepUnits& of_round);
  bool is_full(const Round& round) const;
  // What is expected of the answers from each of their tokens on.
  void expect(std::vector<Rollout>& answers);
  void compare(std::vector<Rollout>& answers, const data::BatchCursor& begin) const;
  double divergence_weight(const data::BatchCursor& begin) const { return begin.divergence_weight.value_or(policy_.beta); }
  Result<void> judge(std::vector<Rollout>& answers);
  Result<void> keep(const Round& round) const;
  void fill(data::LoadedStep& step) const;
  // Where the round after this one begins.
  data::BatchCursor after(const JudgedRound& round, const data::BatchCursor& begin) const;
  std::int64_t prompts_of_draw() const { return policy_.answers / policy_.group; }
  std::uint64_t seed_of_round(std::int64_t round) const {
    return mix_bits(context_.seed + static_cast<std::uint64_t>(round + 1) * golden_step);
  }
  std::string answer_text(const Rollout& rollout) const;
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
  std::optional<reward::Judge> judge_;   // absent: the environment judges
  std::unique_ptr<Episodes> episodes_;  // absent: each answer is judged by itself
  std::unique_ptr<ReferenceModel> reference_;  // absent: the policy is held to nothing
  AnswerScoring expectation_;
  model::CausalModel& model_;
  ObjectivePass passes_;
  LockstepSampler sampler_;
  data::BatchSchedule schedule_;
  std::int64_t longest_ = 0;  // prompt and answer together
  std::int64_t micro_batch_ = 1;
  data::BatchCursor cursor_;
  std::optional<JudgedRound> present_, next_;  // the one that is trained on, and, where rounds are off by one, the next
};

// Special tokens that end an answer are left out anyway; others that the user named end it before themselves.
std::string RolloutSteps::answer_text(const Rollout& rollout) const {
  std::vector<std::int32_t> tokens = rollout.tokens;
  if (std::ranges::find(policy_.stop_tokens, tokens.back()) != policy_.stop_tokens.end())
    tokens.pop_back();
  return text_.tokenizer().decode(tokens, true);
}

Result<void> RolloutSteps::begin_round(SourcedStep& step) {
  const bool is_inside = cursor_.update > 0;
  if (next_ && next_->round.number == cursor_.round) {
    present_ = std::exchange(next_, std::nullopt);
  } else {
    const bool is_drawn_before = policy_.off_by > 0 && cursor_.round > 0;
    auto found = round_at(cursor_, is_inside || is_drawn_before ? Weights::gone : Weights::present, step);
    if (!found) return found.error();
    present_ = std::move(*found);
  }
  next_.reset();
  if (policy_.off_by == 0) return {};
  auto found = round_at(after(*present_, cursor_), is_inside ? Weights::gone : Weights::present, step);
  if (!found) return found.error();
  next_ = std::move(*found);
  return {};
}

data::BatchCursor RolloutSteps::after(const JudgedRound& round, const data::BatchCursor& begin) const {
  const auto& answers = round.round.answers;
  data::BatchCursor next{round.taken.end.epoch, round.taken.end.unit, round.round.number + 1, 0,
                         rewards_after(begin.seen, answers)};
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
      answers, prompts_.tokens, model_.home(), [&](const data::MicroBatch& batch) { return passes_.scores(batch); },
      [](Rollout& answer, std::span<const float> numbers) { answer.values.assign(numbers.begin(), numbers.end()); });
}

Result<JudgedRound> RolloutSteps::round_at(const data::BatchCursor& begin, Weights weights, SourcedStep& step) {
  JudgedRound found;
  auto kept = kept_round(begin, weights, found.taken);
  if (!kept) return kept.error();
  if (*kept) {
    found.round = std::move(**kept);
    compare(found.round.answers, begin);
  } else {
    auto sampled = sampled_round(begin, found.taken, step);
    if (!sampled) return sampled.error();
    found.round = std::move(*sampled);
  }
  found.trained = trained_answers(found.round.answers, policy_, prompts_of_draw());
  std::int64_t prompt_tokens = 0;
  for (const Rollout& answer : found.round.answers)
    prompt_tokens += std::ssize(prompts_.tokens[static_cast<std::size_t>(answer.prompt)]);
  found.metrics = metrics_of(found.round, task_.algorithm, policy_.group, prompt_tokens, names());
  if (episodes_) found.metrics.push_back({std::string(spec::turns_metric), mean_turns(found.round.answers)});
  if (task_.critic)
    std::ranges::move(earnings_of(found.round.answers, *task_.critic, divergence_weight(begin)),
                      std::back_inserter(found.metrics));
  if (*kept) return found;
  const Result<void> written = context_.ranks.rank() == 0 ? keep(found.round) : Result<void>();
  if (auto agreed = agree_on_failure(written, context_.ranks, context_.device); !agreed) return agreed.error();
  return found;
}

Result<Round> RolloutSteps::sampled_round(const data::BatchCursor& begin, data::StepUnits& taken, SourcedStep& step) {
  Round round{begin.round, {}};
  for (std::int64_t draw = 0; draw < policy_.draws && !is_full(round); ++draw) {
    auto sampled = sample(begin.round, take(taken), step);
    if (!sampled) return sampled.error();
    std::ranges::move(*sampled, std::back_inserter(round.answers));
    compare(round.answers, begin);
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
  Result<void> judged;
  auto drawn = draw(round, taken, judged);
  if (!drawn) return drawn.error();  // on every rank
  std::vector<Rollout>& own = *drawn;
  if (reference_) reference_->score(own, prompts_.tokens);
  if (task_.critic) expect(own);
  step.sampling = step.sampling.value_or(0) + seconds_since(began);
  const auto began_judging = Clock::now();
  if (judged && judge_) judged = judge(own);
  if (auto agreed = agree_on_failure(judged, context_.ranks, context_.device); !agreed) return agreed.error();
  std::vector<Rollout> all = gather_rollouts(own, context_.ranks, context_.device);
  step.judging = step.judging.value_or(0) + seconds_since(began_judging);
  std::vector<std::size_t> places(prompts_.questions.size());
  for (std::size_t place = 0; place < taken.units.size(); ++place) places[taken.units[place].front()] = place;
  std::ranges::sort(all, {}, [&](const Rollout& rollout) {
    return std::pair(places[static_cast<std::size_t>(rollout.prompt)], rollout.sample);
  });
  return all;
}

Result<void> RolloutSteps::judge(std::vector<Rollout>& answers) {
  std::vector<reward::Answered> asked;
  for (const Rollout& rollout : answers) {
    const auto prompt = static_cast<std::size_t>(rollout.prompt);
    asked.push_back({&prompts_.judged[prompt], answer_text(rollout), rollout.length(), rollout.ended,
                     prompts_.questions[prompt].most_tokens, rollout.tokens});
  }
  const auto judged = judge_->judge(asked);
  if (!judged) return judged.error();
  for (std::size_t i = 0; i < answers.size(); ++i) {
    answers[i].reward = (*judged)[i].reward;
    answers[i].parts = (*judged)[i].parts;
  }
  return {};
}

Result<void> RolloutSteps::keep(const Round& round) const {
  const RolloutTexts texts{
      [&](const Rollout& rollout) { return prompts_.questions[static_cast<std::size_t>(rollout.prompt)].prompt; },
      [&](const Rollout& rollout) { return answer_text(rollout); },
      [&](const Rollout& rollout) { return episodes_->turns_of(rollout); }, names()};
  return write_rollouts(rollout_log_path(task_.run_folder, round.number), round, texts);
}

void RolloutSteps::fill(data::LoadedStep& step) const {
  const auto& [round, taken, trained, metrics] = *present_;
  const auto count = static_cast<std::uint32_t>(trained.size());
  const std::int64_t batches = (count + task_.batch_size - 1) / task_.batch_size;
  const std::int64_t updates = batches * policy_.iterations;
  const std::int64_t iteration = cursor_.update / batches, batch = cursor_.update % batches;
  std::vector<std::uint32_t> order = data::shuffled_numbers(count, seed_of_round(round.number), iteration);
  for (std::uint32_t& number : order) number = trained[number];
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

}  // namespace

Result<std::unique_ptr<StepSource>> make_rollout_steps(const wire::TrainTask& task, const TrainerContext& context,
                                                       TrainedModel& trained) {
  auto read = read_questions(task.data, trained.text());
  if (!read) return read.error();
  std::optional<reward::Judge> judge;
  if (!task.environment) {
    std::unique_ptr<reward::Part> model;
    if (task.judge) {
      auto made = make_reward_model(task, context, trained.ops());
      if (!made) return made.error();
      model = std::move(*made);
    }
    auto made = reward::make_judge(*task.reward, {}, std::move(model));
    if (!made) return made.error();
    judge.emplace(std::move(*made));
  }
  const std::int64_t longest = std::min(task.sequence_length, trained.model().config().positions);
  Prompts prompts;
  for (Question& question : *read) {
    const std::int64_t room = longest - std::ssize(question.tokens);
    if (room < 1 || question.tokens.empty())
      return Error{Error::Kind::bad_input,
                   fmt::format("prompt {} has {} tokens, and prompt and answer together may have {}",
                               prompts.questions.size() + 1, std::ssize(question.tokens), longest),
                   "shorten it, or raise training.sequence_length"};
    question.most_tokens = std::min(room, task.policy->most_tokens);
    prompts.judged.push_back({question.prompt, question.answer, question.row});
    prompts.tokens.push_back(question.tokens);
    prompts.questions.push_back(std::move(question));
  }
  std::unique_ptr<ReferenceModel> reference;
  if (task.policy->beta > 0) {
    auto made = ReferenceModel::make(task, context, trained);
    if (!made) return made.error();
    reference = std::move(*made);
  }
  auto steps = std::make_unique<RolloutSteps>(task, context, trained, std::move(prompts), std::move(judge),
                                              std::move(reference));
  if (task.environment)
    if (auto made = steps->make_episodes(); !made) return made.error();
  return std::unique_ptr<StepSource>(std::move(steps));
}

}  // namespace muster::train
