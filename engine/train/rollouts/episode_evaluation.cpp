#include "train/rollouts/episode_evaluation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/bit_mix.hpp"

namespace muster::train {
namespace {

constexpr std::int64_t most_at_once = 64;  // episodes that a rank plays side by side
constexpr std::int64_t facts_of_episode = 4;  // what it earned, whether that is known, whether it was solved, whether that is
constexpr std::uint64_t seed_of_evaluations = 0x6576616c75617465u;

}  // namespace

EpisodeEvaluation::EpisodeEvaluation(const wire::EpisodeEvaluations& evaluations, std::size_t index, EpisodePlayers players)
    : name_(evaluations.environments[index].name),
      options_(evaluations.environments[index].options),
      draws_(evaluations.draws),
      episodes_(evaluations.episodes),
      players_(players),
      sampler_(players.model, players.ops, std::min(most_at_once, evaluations.episodes), "episode of the evaluation") {}

Result<std::unique_ptr<EpisodeEvaluation>> EpisodeEvaluation::make(const wire::EpisodeEvaluations& evaluations,
                                                                   std::size_t index, const std::string& questions,
                                                                   EpisodePlayers players) {
  std::unique_ptr<EpisodeEvaluation> made(new EpisodeEvaluation(evaluations, index, players));
  auto read = read_questions(questions, players.text);
  if (!read) return read.error();
  made->questions_ = std::move(*read);
  if (auto fits = made->measure_prompts(); !fits) return fits.error();
  auto player = Episodes::make(made->options_, players.text, made->questions_, made->draws_.stop_tokens, players.seed);
  if (!player) return player.error();
  made->player_ = std::move(*player);
  return made;
}

Result<void> EpisodeEvaluation::measure_prompts() {
  const std::int64_t positions = players_.model.config().positions;
  for (std::size_t i = 0; i < questions_.size(); ++i) {
    Question& question = questions_[i];
    const std::int64_t count = std::ssize(question.tokens);
    if (count == 0 || count >= positions)
      return Error{Error::Kind::bad_input,
                   fmt::format("row {} of {} begins with {} tokens, and the model has {} positions", i + 1, name_, count, positions),
                   "evaluate on shorter rows, none of them empty"};
    question.most_tokens = std::min(draws_.most_tokens, positions - count);
    longest_ = std::max(longest_, count + question.most_tokens);
  }
  return {};
}

// Where there are fewer rows than episodes, rows come again with other answers.
std::vector<generate::Request> EpisodeEvaluation::requests_of(const communicate::Communicator& ranks) const {
  std::vector<generate::Request> requests;
  const std::int64_t rows = std::ssize(questions_);
  for (std::int64_t episode = ranks.rank(); episode < episodes_; episode += ranks.size()) {
    const Question& question = questions_[static_cast<std::size_t>(episode % rows)];
    requests.push_back({question.tokens, {{episode % rows, episode / rows, question.most_tokens}}});
  }
  return requests;
}

generate::SamplerOptions EpisodeEvaluation::sampler_options(std::int64_t turn) const {
  generate::SamplerOptions options;
  options.longest = longest_;
  options.rules = {.temperature = draws_.temperature,
                   .top_k = draws_.top_k,
                   .top_p = draws_.top_p,
                   .min_p = draws_.min_p,
                   .log_probabilities = true};
  options.generator.seed = mix_bits(players_.seed + seed_of_evaluations + static_cast<std::uint64_t>(turn) * golden_step);
  options.generator.end_tokens = players_.text.end_tokens();
  for (const std::int64_t token : draws_.stop_tokens)
    options.generator.end_tokens.push_back(static_cast<std::int32_t>(token));
  return options;
}

Result<std::vector<wire::NamedNumber>> EpisodeEvaluation::play(communicate::Communicator& ranks,
                                                               const std::function<void(std::int64_t)>& done) {
  const at::Device device = players_.ops.device;
  const auto draw = [&](const std::vector<generate::Request>& requests, std::int64_t turn) {
    return sampler_.complete(requests, sampler_options(turn), ranks, done);
  };
  const auto played = player_->play(requests_of(ranks), draw, ranks, device);
  if (!played) return played.error();
  // Each episode's place is written by one rank alone, so that a sum of bits is that rank's.
  const std::int64_t rows = std::ssize(questions_);
  const at::Tensor own = at::zeros({facts_of_episode, episodes_}, at::kLong);
  auto* facts = own.mutable_data_ptr<std::int64_t>();
  for (const Rollout& rollout : *played) {
    auto* place = facts + rollout.sample * rows + rollout.prompt;
    place[0] = std::bit_cast<std::int64_t>(rollout.reward.value_or(0));
    place[episodes_] = rollout.reward ? 1 : 0;
    place[2 * episodes_] = rollout.solved.value_or(false) ? 1 : 0;
    place[3 * episodes_] = rollout.solved ? 1 : 0;
  }
  const at::Tensor all = own.to(device);
  ranks.all_reduce(all);
  ranks.check();
  const at::Tensor host = all.cpu();
  const auto* found = host.const_data_ptr<std::int64_t>();
  double earned = 0;
  std::int64_t known = 0, solved = 0, judged = 0;
  for (std::int64_t i = 0; i < episodes_; ++i) {
    earned += std::bit_cast<double>(found[i]);
    known += found[episodes_ + i];
    solved += found[2 * episodes_ + i];
    judged += found[3 * episodes_ + i];
  }
  std::vector<wire::NamedNumber> numbers;
  if (known > 0) numbers.push_back({name_ + "/reward", earned / static_cast<double>(known)});
  if (judged > 0) numbers.push_back({name_ + "/success", static_cast<double>(solved) / static_cast<double>(judged)});
  return numbers;
}

}  // namespace muster::train
