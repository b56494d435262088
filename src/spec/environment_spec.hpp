// The settings of environments: what a model acts in while it is trained, or while its trajectories are collected.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

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
  }
};

}  // namespace muster::spec
