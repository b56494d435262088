// The GPUs as the NVIDIA kernel module itself lists them, in /proc: identities only, but in microseconds, where loading
// the management library takes tens of milliseconds.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "gpu/snapshot.hpp"

namespace muster::gpu {

// The GPUs this process may open, in PCI bus order, with index, UUID, name and bus address. Nothing where that cannot
// be said for certain (no such listing, a UUID that is not known yet, MIG instances): then the driver has to be asked.
// root is a parameter for tests: where /proc and /dev are.
std::optional<std::vector<Gpu>> list_from_kernel(const std::filesystem::path& root = "/");

}  // namespace muster::gpu
