// Training of a critic with weights of its own: what is expected of an answer from each of its tokens on (PPO).
#pragma once

#include "train/objectives/objectives.hpp"

namespace muster::train {

// For a model that gives each row one score. Its metrics have the names of the policy's own (spec::metrics_beside_loss).
std::unique_ptr<Objective> make_value_objective(const spec::CriticOptions& critic);

}  // namespace muster::train
