// Which run a new command goes on with.
#pragma once

#include "base/result.hpp"
#include "service/train.hpp"

namespace muster::service {

// --resume auto: the newest run of the same identity; where there is none, a new one begins. --resume PATH: that run,
// or that checkpoint of one.
Result<void> find_run_to_resume(const spec::ExperimentSpec& experiment, TrainPlan& plan);

// In the run's folder: what tells whether another command continues it.
inline constexpr const char* identity_file = "identity";

}  // namespace muster::service
