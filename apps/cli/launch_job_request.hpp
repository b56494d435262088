// From the options of muster launch to what will be launched.
#pragma once

#include "base/result.hpp"
#include "cli/launch_options.hpp"
#include "job/launch.hpp"
#include "launch/worker_environment.hpp"

namespace muster::cli {

// program: the script or program and its arguments. environment: this process's, for Slurm's variables and the like.
Result<job::LaunchJobRequest> read_launch_request(const LaunchOptions& options, const Tail& program,
                                                     const launch::Environment& environment);

}  // namespace muster::cli
