// Supervised training: the mean cross-entropy of the trained tokens.
#pragma once

#include "train/objectives/objective.hpp"

namespace muster::train {

std::unique_ptr<Objective> make_supervised();

}  // namespace muster::train
