// Starts two ranks of muster-worker, as a job would, and lets them run every kind of collective.
#pragma once

#include <optional>
#include <vector>

#include "doctor/host_facts.hpp"
#include "host/host.hpp"

namespace muster::doctor {

// On the CPU; then on GPUs, where the driver shows some that are free: on two, or both ranks on one. To be called while
// this process has one thread: it forks.
std::vector<CollectiveFacts> probe_collectives(const host::HostSources& sources);

}  // namespace muster::doctor
