// Weights that a checkpoint has in codes, in plans.
#pragma once

#include "base/result.hpp"
#include "plan/workload.hpp"
#include "spec/model/model_source.hpp"
#include "spec/weight_options.hpp"

namespace muster::planning {

// Those of a model that has some. Where they are of several kinds, all count as the widest.
plan::PackedWeights stored_codes(const spec::ModelDescription& model);

// Codes that are there are used as they are: what is asked for must be the same. Refused: other codes, and modules that
// are to be left as they are and have codes.
Result<void> check_stored_codes(const spec::ModelDescription& model, const spec::WeightOptions& asked);

}  // namespace muster::planning
