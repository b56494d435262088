// Training by judgements (KTO): answers that are desired or not, each by itself. A unit is a sample with a label, and its
// prompt with another's answer, by which is measured how far the policy has moved from the reference.
#pragma once

#include "train/objectives/objectives.hpp"

namespace muster::train {

std::unique_ptr<Objective> make_kto(const ObjectiveOptions& options);

}  // namespace muster::train
