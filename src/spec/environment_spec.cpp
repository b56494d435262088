#include "spec/environment_spec.hpp"

#include <cmath>

#include "spec/run_spec.hpp"

namespace muster::spec {

std::vector<Word<EnvironmentKind>> words(EnvironmentKind) {
  return {{"code", EnvironmentKind::code},
          {"math", EnvironmentKind::math},
          {"tool", EnvironmentKind::tool},
          {"debate", EnvironmentKind::debate}};
}

std::optional<EnvironmentOptions> RunSpec::environment_options() const {
  return environment.type ? std::optional(options_of(*environment.type)) : std::nullopt;
}

EnvironmentOptions RunSpec::evaluation_environment(const EvaluationEnvironment& one) const {
  EnvironmentOptions options = options_of(one.type);
  options.turns = one.max_episode_length.value_or(options.turns);
  options.attempts = one.max_attempts.value_or(options.attempts);
  options.rounds = one.rounds.value_or(options.rounds);
  options.steps_count = one.reward_steps.value_or(options.steps_count);
  if (one.timeout) options.code_seconds = static_cast<std::int64_t>(std::ceil(*one.timeout));
  options.scale = one.reward_scale.value_or(options.scale);
  options.bias = one.reward_bias.value_or(options.bias);
  if (one.reward_clip) options.clip = one.reward_clip;
  return options;
}

EpisodeDraws RunSpec::episode_draws() const {
  return {generation.max_new_tokens, generation.temperature, generation.top_p, generation.top_k, generation.min_p,
          generation.stop_tokens};
}

EnvironmentOptions RunSpec::options_of(EnvironmentKind kind) const {
  EnvironmentOptions options;
  options.kind = kind;
  options.turns = training.max_episode_length.value_or(usual_turns);
  options.attempts = environment.max_attempts;
  options.rounds = environment.rounds;
  options.steps_count = environment.reward_steps;
  options.result_tokens = environment.max_result_tokens;
  options.tool_role = environment.tool_role;
  options.code_seconds = static_cast<std::int64_t>(std::ceil(environment.timeout));
  options.code_python = environment.python;
  options.scale = reward.scale;
  options.bias = reward.bias;
  options.clip = reward.clip;
  return options;
}

}  // namespace muster::spec
