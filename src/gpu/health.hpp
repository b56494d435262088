// Whether a GPU should be given work, from what the driver reports. Pure; fails closed.
#pragma once

#include <optional>
#include <string>

#include "gpu/snapshot.hpp"

namespace muster::gpu {

// Why this GPU is sick, or nothing. Errors that an application causes (Xid 13, 31, 43, 45, 68, 94, 109) do not count;
// lost devices, failed or pending row remaps, uncorrected memory errors and every other Xid do.
std::optional<std::string> sickness(const Gpu& gpu);

}  // namespace muster::gpu
