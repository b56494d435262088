// Answers of conversations and what is said to them are learnt at once: a weighted sum of the two mean losses.
#pragma once

#include "train/objectives/objectives.hpp"

namespace muster::train {

std::unique_ptr<Objective> make_combined(const spec::CombinedOptions& options);

}  // namespace muster::train
