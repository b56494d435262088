// The table of objectives.
#pragma once

#include "spec/values.hpp"
#include "train/objective.hpp"

namespace muster::train {

// An algorithm that is not in the table is a bug of who plans: what this version lacks is refused there.
std::unique_ptr<Objective> make_objective(spec::Algorithm algorithm);

}  // namespace muster::train
