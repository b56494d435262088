#include "train/rollouts/answer_judge.hpp"

#include "train/rollouts/rollout_exchange.hpp"

namespace muster::train {

std::vector<std::size_t> AnswerJudge::own_share(const std::vector<Rollout>& answers) const {
  const auto group = static_cast<std::size_t>(policy_.group), ranks = static_cast<std::size_t>(context_.ranks.size());
  std::vector<std::size_t> own;
  for (std::size_t i = 0; i < answers.size(); ++i)
    if (i / group % ranks == static_cast<std::size_t>(context_.ranks.rank())) own.push_back(i);
  return own;
}

void AnswerJudge::start(const std::vector<Rollout>& answers) {
  std::vector<reward::Answered> asked;
  for (const std::size_t place : own_share(answers)) {
    const Rollout& rollout = answers[place];
    const auto prompt = static_cast<std::size_t>(rollout.prompt);
    asked.push_back({&prompts_.judged[prompt], answer_text(rollout, text_, policy_.stop_tokens), rollout.length(),
                     rollout.ended, prompts_.questions[prompt].most_tokens, rollout.tokens});
  }
  judge_.start(std::move(asked));
}

Result<void> AnswerJudge::finish(std::vector<Rollout>& answers) {
  auto judged = judge_.finish();
  const Result<void> done = judged ? Result<void>() : judged.error();
  if (auto agreed = agree_on_failure(done, context_.ranks, context_.device); !agreed) return agreed;
  const std::vector<std::size_t> own = own_share(answers);
  for (std::size_t i = 0; i < own.size(); ++i) {
    answers[own[i]].reward = (*judged)[i].reward;
    answers[own[i]].parts = std::move((*judged)[i].parts);
  }
  share_rewards(answers, own, context_.ranks, context_.device);
  return {};
}

}  // namespace muster::train
