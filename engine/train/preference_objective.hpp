// Training by preferences: DPO, SimPO and ORPO. A unit of the data is a pair of samples, the chosen one first.
#pragma once

#include "train/objectives.hpp"

namespace muster::train {

std::unique_ptr<Objective> make_dpo(const ObjectiveOptions& options);
std::unique_ptr<Objective> make_simpo(const ObjectiveOptions& options);
// The prompts of chosen samples are trained on as well.
std::unique_ptr<Objective> make_orpo(const ObjectiveOptions& options);

// For each sequence of a pass the sum of its trained rows' log-probabilities, in double and in the order of the rows: it
// follows from the sequence alone.
std::vector<double> sums_of_sequences(const data::MicroBatch& batch, const at::Tensor& log_probabilities);

}  // namespace muster::train
