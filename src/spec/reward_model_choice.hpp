// The reward model that a run's answers are judged by.
#pragma once

#include <optional>
#include <string>

#include "base/result.hpp"
#include "spec/model/model_source.hpp"
#include "spec/run_spec.hpp"
#include "spec/weight_options.hpp"

namespace muster::spec {

struct RewardModelChoice {
  std::string model;  // as find_model knows it
  ModelDescription description;
  std::optional<WeightOptions> weights;  // absent: plain ones
};

// What reward.model names, where reward.functions has model; absent: none judges. Refused: a model that is not there, one
// without weights, one that does not give a text one score.
Result<std::optional<RewardModelChoice>> choose_reward_model(const RunSpec& spec, const ModelSearch& search);

// Refuses a head that gives a text anything but one score.
Result<void> check_one_score(const ModelDescription& model);

}  // namespace muster::spec
