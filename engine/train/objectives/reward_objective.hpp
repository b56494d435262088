// Reward models: of a pair of texts the better one is to have the higher score (Bradley and Terry).
#pragma once

#include "train/objectives/objectives.hpp"

namespace muster::train {

std::unique_ptr<Objective> make_reward(const ObjectiveOptions& options);

}  // namespace muster::train
