// Whether the memory of a GPU's last holder is back. A killed holder cannot say so itself; the driver frees its memory
// a while after it is dead.
#pragma once

#include "gpu/snapshot.hpp"
#include "lease/lease.hpp"

namespace muster::host {

// Back: no more is in use than when the last holder took it, or living processes account for the rest.
bool memory_is_back(const lease::Holder& last_holder, const gpu::Gpu& now);

}  // namespace muster::host
