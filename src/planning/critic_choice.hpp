// The model that learns what answers are going to earn, where it is not a head of the policy.
#pragma once

#include <optional>

#include "base/result.hpp"
#include "spec/model/model_source.hpp"
#include "spec/run_spec.hpp"

namespace muster::planning {

// What ppo.critic names, with the head that gives each token its value: its own (…ForSequenceClassification with one
// label), or a fresh one in the place of what predicts tokens (ModelDescription::fresh_head). Absent:
// training.algorithm is not ppo, or none is named. Refused: a model that is not there, one without weights, one with
// another head.
Result<std::optional<spec::ModelDescription>> choose_critic(const spec::RunSpec& spec,
                                                            const spec::ModelSearch& search);

}  // namespace muster::planning
