// The least and greatest terms of a step over all ranks: they do not depend on how rows are laid over passes and ranks.
#pragma once

#include <vector>

#include "communicate/communicator.hpp"
#include "train/objective_pass.hpp"

namespace muster::train {

// In the order of Objective::extremes(), over the passes since the last call; of no rows NaN. Where there are any, all
// ranks call it.
std::vector<double> extremes_over_ranks(ObjectivePass& passes, communicate::Communicator& ranks);

}  // namespace muster::train
