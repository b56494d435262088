// The table of objectives.
#pragma once

#include <optional>
#include <vector>

#include "spec/policy_options.hpp"
#include "spec/preference_options.hpp"
#include "spec/reward_model_options.hpp"
#include "spec/sft_options.hpp"
#include "train/objectives/objective.hpp"

namespace muster::train {

// What objectives are made from; each takes its own part.
struct ObjectiveOptions {
  std::optional<spec::PreferenceOptions> preferences = {};
  std::optional<spec::PolicyOptions> policy = {};
  std::optional<spec::CriticOptions> critic = {};
  bool values_are_elsewhere = false;  // the critic is another model (value_objective.hpp)
  std::optional<spec::RewardModelOptions> reward_model = {};
  std::optional<spec::CombinedOptions> combined = {};
  std::vector<double> reference = {};  // of each sample of the data (ReferenceScores); empty: there is none
};

// An algorithm that is not in the table is a bug of who plans: what this version lacks is refused there.
std::unique_ptr<Objective> make_objective(spec::Algorithm algorithm, const ObjectiveOptions& options);

}  // namespace muster::train
