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
  if (!environment.type) return std::nullopt;
  EnvironmentOptions options;
  options.kind = *environment.type;
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
