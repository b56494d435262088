#include "spec/environment_spec.hpp"

#include <algorithm>
#include <cmath>

#include "spec/run_spec.hpp"

namespace muster::spec {

std::vector<Word<EnvironmentKind>> words(EnvironmentKind) {
  return {{"code", EnvironmentKind::code},
          {"math", EnvironmentKind::math},
          {"tool", EnvironmentKind::tool},
          {"debate", EnvironmentKind::debate},
          {"program", EnvironmentKind::program}};
}

namespace {

struct EnvironmentSetting {
  std::string_view key;
  std::vector<EnvironmentKind> kinds;  // that read it
  bool of_servers = false;             // read where the environment is a server's as well
};

const EnvironmentSetting* setting_of(std::string_view key) {
  using enum EnvironmentKind;
  static const std::vector<EnvironmentKind> all{code, math, tool, debate, program};
  static const std::vector<EnvironmentSetting> settings{{"environment.max_attempts", {code}},
                                                        {"environment.rounds", {debate}},
                                                        {"environment.reward_steps", {math}},
                                                        {"environment.max_result_tokens", {code, tool, debate, program}, true},
                                                        {"environment.tool_role", {tool}},
                                                        {"environment.timeout", {code, tool}},
                                                        {"environment.python", {code, tool}},
                                                        {"environment.program", {program}},
                                                        {"environment.program_seconds", {program}, true},
                                                        {"environment.program_restarts", {program}, true},
                                                        {"environment.server", all, true},
                                                        {"environment.token_file", all, true},
                                                        {"environment.at_once", all, true}};
  const auto found = std::ranges::find(settings, key, &EnvironmentSetting::key);
  return found == settings.end() ? nullptr : &*found;
}

}  // namespace

bool is_setting_of_environments(std::string_view key) { return setting_of(key) != nullptr; }

bool is_setting_of(EnvironmentKind kind, std::string_view key) {
  const EnvironmentSetting* setting = setting_of(key);
  return setting != nullptr && std::ranges::find(setting->kinds, kind) != setting->kinds.end();
}

bool is_read_of_servers(std::string_view key) {
  const EnvironmentSetting* setting = setting_of(key);
  return setting != nullptr && setting->of_servers;
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
  options.program = environment.program.texts;
  options.program_seconds = environment.program_seconds;
  options.program_restarts = environment.program_restarts;
  options.server = environment.server;
  options.token_file = environment.token_file;
  options.at_once = environment.at_once;
  options.scale = reward.scale;
  options.bias = reward.bias;
  options.clip = reward.clip;
  return options;
}

}  // namespace muster::spec
