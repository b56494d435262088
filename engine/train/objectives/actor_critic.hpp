// Training by what answers earned against what was expected of each of their tokens, which is learnt beside (PPO).
#pragma once

#include "train/objectives/objectives.hpp"

namespace muster::train {

std::unique_ptr<Objective> make_actor_critic(const ObjectiveOptions& options);

}  // namespace muster::train
