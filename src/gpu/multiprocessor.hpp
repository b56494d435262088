// How many cores one multiprocessor has, by architecture.
#pragma once

#include <optional>

#include "gpu/snapshot.hpp"

namespace muster::gpu {

// Nothing for an architecture that is not known here.
std::optional<int> cores_per_multiprocessor(ComputeCapability capability);

}  // namespace muster::gpu
