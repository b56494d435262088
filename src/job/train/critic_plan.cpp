#include "job/train/critic_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace muster::job {
namespace {

// A critic is given the ids of the policy's tokens.
Result<void> check_tokens(const std::string& critic, const chat::ModelText& policy) {
  const auto text = chat::read_model_text(critic, spec::model_search_from_environment());
  if (!text) return bad_input("ppo.critic: " + text.error().what, text.error().remedy);
  const tokenizer::Tokenizer &own = text->tokenizer(), &given = policy.tokenizer();
  for (std::int64_t id = 0; id < given.vocabulary(); ++id) {
    const auto token = static_cast<tokenizer::TokenId>(id);
    if (own.piece(token) == given.piece(token)) continue;
    return bad_input(fmt::format("ppo.critic: token {} of {} is \"{}\", and of the policy \"{}\"", id, critic,
                                 own.piece(token), given.piece(token)),
                     "name a model with the policy's tokenizer, as the policy itself");
  }
  return {};
}

}  // namespace

Result<void> take_critic(wire::TrainTask& task, const spec::RunSpec& spec, const plan::Question& question,
                         const chat::ModelText& text) {
  if (!question.critic) return {};
  const spec::ModelConfig& config = question.critic->config;
  task.critic_model = spec.ppo.critic == spec.model.path ? task.model : *spec.ppo.critic;
  task.critic_head = question.critic->fresh_head;
  task.critic_rate = spec.ppo.critic_learning_rate;
  const std::int64_t tokens = text.tokenizer().vocabulary(), longest = question.workload.sequence;
  if (tokens > config.vocabulary)
    return bad_input(fmt::format("ppo.critic: {} knows {} tokens, and the policy has {}", *task.critic_model,
                                 config.vocabulary, tokens),
                     "name a model with the policy's tokenizer, as the policy itself");
  if (longest > config.positions)
    return bad_input(fmt::format("ppo.critic: {} has {} positions, and training.sequence_length is {}",
                                 *task.critic_model, config.positions, longest),
                     fmt::format("training.sequence_length={}", config.positions));
  return *task.critic_model == task.model ? Result<void>() : check_tokens(*task.critic_model, text);
}

wire::TrainTask files_of_critic(const wire::TrainTask& task) {
  wire::TrainTask critic = task;
  critic.adapters.reset();
  return critic;
}

}  // namespace muster::job
