// Training by preferences: DPO, SimPO and ORPO. A unit of the data is a pair of samples, the chosen one first.
#pragma once

#include "train/objectives/objectives.hpp"

namespace muster::train {

std::unique_ptr<Objective> make_dpo(const ObjectiveOptions& options);
std::unique_ptr<Objective> make_simpo(const ObjectiveOptions& options);
// The prompts of chosen samples are trained on as well.
std::unique_ptr<Objective> make_orpo(const ObjectiveOptions& options);

}  // namespace muster::train
