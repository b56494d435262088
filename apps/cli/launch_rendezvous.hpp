// From the options of muster launch to how the hosts of a run meet: torchrun's rendezvous options, or Slurm's
// variables.
#pragma once

#include <string>

#include "base/result.hpp"
#include "cli/launch_options.hpp"
#include "job/launch.hpp"
#include "launch/worker_environment.hpp"

namespace muster::cli {

// "2", "1:4".
Result<launch::HostRange> parse_hosts(const std::string& text);

// --rdzv-conf.
Result<void> set_times(launch::LaunchRequest& request, const LaunchOptions& options);

// Hosts, meeting, run id and, for one of several tasks of a host, its place. job.ranks is already set.
Result<void> set_meeting(job::LaunchJobRequest& job, const LaunchOptions& options,
                         const launch::Environment& environment);

}  // namespace muster::cli
