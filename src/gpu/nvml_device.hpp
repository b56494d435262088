// One GPU's facts and readings, asked of NVML.
#pragma once

#include <filesystem>
#include <optional>

#include "gpu/inventory.hpp"
#include "gpu/nvml_library.hpp"
#include "gpu/pci_address.hpp"
#include "gpu/snapshot.hpp"

namespace muster::gpu::nvml {

// What the driver does not answer is absent. A GPU that is found to be lost keeps what was read until then.
Gpu read_gpu(const Calls& calls, GpuIndex index, Device device, Detail detail, const MachinePaths& paths);

std::optional<PciAddress> read_pci_address(const Calls& calls, Device device);

}  // namespace muster::gpu::nvml
