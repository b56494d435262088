#include "train/rollouts/episodes.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "chat/appended_turn.hpp"
#include "train/rollouts/rollout_exchange.hpp"

namespace muster::train {

Result<std::unique_ptr<Episodes>> Episodes::make(const spec::EnvironmentOptions& options, const chat::ModelText& text,
                                                 const std::vector<Question>& questions,
                                                 const std::vector<std::int64_t>& stop_tokens, std::uint64_t seed) {
  std::unique_ptr<Episodes> made(new Episodes(options, text, questions, stop_tokens, seed));
  auto environment = environment::make_environment(options);
  if (!environment) return environment.error();
  made->environment_ = std::move(*environment);
  return made;
}

// Members of a group have sessions of their own, of one problem.
Result<std::vector<Episodes::Episode>> Episodes::begin(const std::vector<generate::Request>& requests) const {
  std::vector<Episode> episodes;
  for (const generate::Request& request : requests)
    for (const generate::Branch& branch : request.branches) {
      const auto prompt = static_cast<std::uint64_t>(branch.index);
      auto session = environment_->reset(questions_[prompt].row, environment::seed_of_row(seed_, prompt));
      if (!session) return session.error();
      episodes.push_back({{.prompt = branch.index, .sample = branch.sample}, branch.most_tokens, std::move(*session)});
    }
  std::ranges::sort(episodes, {}, [](const Episode& one) { return std::pair(one.rollout.prompt, one.rollout.sample); });
  return episodes;
}

std::string Episodes::answer_text(std::span<const std::int32_t> tokens) const {
  if (!tokens.empty() && std::ranges::find(stop_tokens_, tokens.back()) != stop_tokens_.end())
    tokens = tokens.first(tokens.size() - 1);
  return text_.tokenizer().decode({tokens.begin(), tokens.end()}, true);
}

// False: there is no room for it and another answer, so that it is left out.
Result<bool> Episodes::append(Episode& episode, const std::vector<environment::Message>& messages) const {
  nlohmann::ordered_json said = nlohmann::ordered_json::array();
  for (const environment::Message& message : messages)
    said.push_back({{"role", message.role},
                    {"content", chat::cut_in_the_middle(text_, message.content, options_.result_tokens)}});
  std::vector<std::int32_t>& tokens = episode.rollout.tokens;
  const auto more = chat::tokens_after_answer(text_, said, tokens.back());
  if (!more) return more.error();
  const std::int64_t begin = std::ssize(tokens), end = begin + std::ssize(*more);
  if (end >= episode.room) return false;
  tokens.insert(tokens.end(), more->begin(), more->end());
  if (end > begin) episode.rollout.inserted.push_back({begin, end});
  return true;
}

Result<void> Episodes::advance(Episode& episode, generate::Completion given) const {
  Rollout& rollout = episode.rollout;
  rollout.tokens.insert(rollout.tokens.end(), given.tokens.begin(), given.tokens.end());
  rollout.log_probabilities.insert(rollout.log_probabilities.end(), given.log_probabilities.begin(),
                                   given.log_probabilities.end());
  if (std::ranges::any_of(given.log_probabilities, [](float value) { return std::isnan(value); })) {
    rollout.turn_rewards.emplace_back();  // the model is broken, and the round fails
    episode.is_live = false;
    return {};
  }
  const bool is_whole = given.finish == generate::Finish::stop;
  const environment::Step step = episode.session->step(answer_text(given.tokens));
  rollout.turn_rewards.push_back(step.reward);
  if (step.done) rollout.solved = step.solved;
  episode.is_live = false;
  rollout.ended = step.done && is_whole;
  if (step.done) return {};
  if (is_whole) {
    const auto appended = append(episode, step.messages);
    if (!appended) return appended.error();
    episode.is_live = *appended;
    if (episode.is_live) return {};
  }
  if (options_.kind != spec::EnvironmentKind::debate) rollout.solved = false;
  const auto more = episode.session->end_early();
  std::optional<double>& last = rollout.turn_rewards.back();
  last = last && more ? std::optional(*last + *more) : std::nullopt;
  return {};
}

// Environments may run programs, which threads wait for.
Result<void> Episodes::advance_all(const std::vector<Episode*>& episodes, std::vector<generate::Completion> given) const {
  std::vector<Result<void>> results(episodes.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < episodes.size(); i = next++) results[i] = advance(*episodes[i], std::move(given[i]));
  };
  {
    std::vector<std::jthread> workers;
    const auto count = std::min(episodes.size(), environment::steps_at_once(options_));
    for (std::size_t i = 1; i < count; ++i) workers.emplace_back(work);
    work();
  }
  for (const Result<void>& result : results)
    if (!result) return result;
  return {};
}

Result<std::vector<Rollout>> Episodes::play(std::vector<generate::Request> first, const Draw& draw,
                                            communicate::Communicator& ranks, at::Device device) const {
  auto begun = begin(first);
  if (auto agreed = agree_on_failure(begun ? Result<void>() : begun.error(), ranks, device); !agreed) return agreed.error();
  std::vector<Episode>& episodes = *begun;
  std::vector<generate::Request> requests = std::move(first);
  Result<void> failure;
  for (std::int64_t turn = 0; is_true_anywhere(!requests.empty(), ranks, device); ++turn) {
    std::vector<Episode*> live;
    for (Episode& episode : episodes)
      if (episode.is_live) live.push_back(&episode);
    // In the order of prompt and sample, as the episodes are.
    auto advanced = advance_all(live, draw(requests, turn));
    if (!advanced && failure) failure = advanced;
    requests.clear();
    for (Episode* episode : live) {
      if (!episode->is_live || !failure) continue;
      const Rollout& rollout = episode->rollout;
      generate::Request& request = requests.emplace_back();
      request.prompt = questions_[static_cast<std::size_t>(rollout.prompt)].tokens;
      request.prompt.insert(request.prompt.end(), rollout.tokens.begin(), rollout.tokens.end());
      request.branches.push_back({rollout.prompt, rollout.sample, episode->room - std::ssize(rollout.tokens)});
    }
  }
  if (auto agreed = agree_on_failure(failure, ranks, device); !agreed) return agreed.error();
  std::vector<Rollout> rollouts;
  for (Episode& episode : episodes) {
    Rollout& rollout = rollouts.emplace_back(std::move(episode.rollout));
    rollout.reward = environment::worth_of(rollout.turn_rewards, options_);
    rollout.parts = {environment::worth_of(rollout.turn_rewards, {})};
  }
  return rollouts;
}

std::vector<std::string> Episodes::turns_of(const Rollout& rollout) const {
  const std::span tokens(rollout.tokens);
  std::vector<std::string> texts;
  std::size_t begin = 0;
  for (const InsertedTokens& span : rollout.inserted) {
    const auto first = static_cast<std::size_t>(span.begin), end = static_cast<std::size_t>(span.end);
    texts.push_back(answer_text(tokens.subspan(begin, first - begin)));
    texts.push_back(text_.tokenizer().decode({tokens.begin() + span.begin, tokens.begin() + span.end}, true));
    begin = end;
  }
  texts.push_back(answer_text(tokens.subspan(begin)));
  return texts;
}

}  // namespace muster::train
