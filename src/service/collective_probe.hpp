// Starts two ranks of muster-worker, as a job would, and lets them run every kind of collective.
#pragma once

#include <optional>
#include <vector>

#include "service/host.hpp"
#include "service/host_facts.hpp"

namespace muster::service {

// On the CPU; then on GPUs, where the driver shows some that are free: on two, or both ranks on one. To be called while
// this process has one thread: it forks.
std::vector<CollectiveFacts> probe_collectives(const HostSources& sources);

}  // namespace muster::service
