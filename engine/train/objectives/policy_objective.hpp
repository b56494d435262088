// Training by the rewards of answers that the model sampled: what earned more than others of its group becomes likelier.
#pragma once

#include "train/objectives/objectives.hpp"

namespace muster::train {

std::unique_ptr<Objective> make_policy(const ObjectiveOptions& options);

}  // namespace muster::train
