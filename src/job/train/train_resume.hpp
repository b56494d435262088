// Which run a command resumes.
#pragma once

#include "base/result.hpp"
#include "job/train/train.hpp"

namespace muster::job {

// --resume auto: the newest run of the same identity, and of the same name where the user gave one; if there is
// none, a new one begins. --resume PATH: that run, or that checkpoint of one.
Result<void> find_run_to_resume(const spec::ResolvedSpec& settings, TrainPlan& plan);

// Whether a run has done everything that the plan asks for. Refused if it has gone further.
Result<bool> is_complete(const std::filesystem::path& run, const TrainPlan& plan);

// In the run's folder: what decides whether a command resumes it.
inline constexpr const char* identity_file = "identity";

}  // namespace muster::job
