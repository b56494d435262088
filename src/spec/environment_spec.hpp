// The settings of environments: what a model acts in while it is trained, or while its trajectories are collected.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "spec/environment_options.hpp"
#include "spec/environment/evaluation_environments.hpp"

namespace muster::spec {

struct EnvironmentSpec {
  std::optional<EnvironmentKind> type;
  std::int64_t max_attempts = 3;
  std::int64_t rounds = 3;
  bool reward_steps = false;
  std::int64_t max_result_tokens = 256;
  std::string tool_role = "tool";
  double timeout = 5;
  std::string python = "python3";
  EvaluationEnvironments evaluations;
  ExactTexts program;
  double program_seconds = 60;
  std::int64_t program_restarts = 3;
  std::optional<std::string> server;
  std::optional<std::string> token_file;
  std::optional<std::int64_t> at_once;

  template <class Visitor>
  static void describe(Visitor& field) {
    field("type", &EnvironmentSpec::type, "what the model acts in, and what judges it; not set: reward.functions judge");
    field("max_attempts", &EnvironmentSpec::max_attempts, "of code: how often a program may be tried; the last one counts")
        .at_least(1);
    field("rounds", &EnvironmentSpec::rounds, "of debate: arguments of each side").at_least(1);
    field("reward_steps", &EnvironmentSpec::reward_steps, "of math: 0.2 more where an answer shows its steps");
    field("max_result_tokens", &EnvironmentSpec::max_result_tokens,
          "what an environment says is cut in its middle to so many tokens")
        .in("tokens")
        .at_least(8);
    field("tool_role", &EnvironmentSpec::tool_role,
          "of tool: the role of a result's message; user where a chat template knows no other");
    field("timeout", &EnvironmentSpec::timeout, "of code and tool: how long a program may be on the CPU, rounded up to seconds")
        .in("seconds")
        .above(0)
        .at_most(86400);
    field("python", &EnvironmentSpec::python, "of code and tool: the Python that runs programs, a name or a path");
    field("evaluations", &EnvironmentSpec::evaluations,
          "what the model acts in where it is evaluated, whatever it is trained by; what a table leaves out is as above");
    field("program", &EnvironmentSpec::program,
          "of program: what acts over JSON lines, a line for the shell, or a list of a program and its arguments");
    field("program_seconds", &EnvironmentSpec::program_seconds, "of program, and of a server: how long it has for a step")
        .in("seconds")
        .above(0)
        .at_most(1e6);
    field("program_restarts", &EnvironmentSpec::program_restarts,
          "of program, and of a server: how often a step is tried again before its episode's worth is unknown")
        .at_least(0);
    field("server", &EnvironmentSpec::server,
          "HOST:PORT of muster serve-environments, which has this environment; not set: it is here");
    field("token_file", &EnvironmentSpec::token_file,
          "of a server: the file with its token, for the owner's eyes alone; not set: MUSTER_ENVIRONMENT_TOKEN");
    field("at_once", &EnvironmentSpec::at_once,
          "steps that a rank has under way at a time; not set: as many as there are cores, 32 of a program or a server")
        .in("steps")
        .at_least(1)
        .at_most(4096);
  }
};

// What a setting says is about an environment, of whatever kind, and so makes no sense without one.
bool is_setting_of_environments(std::string_view key);
// Whether environments of this kind read such a setting.
bool is_setting_of(EnvironmentKind kind, std::string_view key);
// Whether such a setting is read where the environment is a server's, which reads the others.
bool is_read_of_servers(std::string_view key);

}  // namespace muster::spec
