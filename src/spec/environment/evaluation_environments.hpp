// What a model acts in where it is evaluated: environments, each with rows of its own or those that are trained on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/document.hpp"
#include "base/result.hpp"
#include "spec/environment_options.hpp"

namespace muster::spec {

// What is not said is as the settings of `environment` and `reward` have it.
struct EvaluationEnvironment {
  EnvironmentKind type = EnvironmentKind::math;
  std::optional<std::string> data;  // a file or folder of its rows; absent: data.eval_path, else data.path
  std::optional<std::int64_t> max_episode_length;
  std::optional<std::int64_t> max_attempts;
  std::optional<std::int64_t> rounds;
  std::optional<bool> reward_steps;
  std::optional<double> timeout;
  std::optional<double> reward_scale;
  std::optional<double> reward_bias;
  std::optional<double> reward_clip;

  bool operator==(const EvaluationEnvironment&) const = default;
};

struct EvaluationEnvironments {
  std::vector<EvaluationEnvironment> list;
  std::vector<std::string> passed_over;  // words of guide 0 that were there and change nothing

  bool operator==(const EvaluationEnvironments&) const = default;
};

// A list of tables.
Result<EvaluationEnvironments> read(const Node& node, const EvaluationEnvironments*);
std::string write(const EvaluationEnvironments& value);
std::string accepted(const EvaluationEnvironments*);

// The columns of metrics.csv of environment `index` of the list: "eval_math", or "eval_math_2" where an earlier one is of the
// same type; "/reward" and "/success" follow.
std::string metric_name(const std::vector<EnvironmentKind>& kinds, std::size_t index);

}  // namespace muster::spec
