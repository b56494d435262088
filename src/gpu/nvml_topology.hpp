// How the GPUs of this machine reach each other, asked of NVML.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "gpu/nvml_library.hpp"
#include "gpu/pci_address.hpp"
#include "gpu/snapshot.hpp"

namespace muster::gpu::nvml {

struct Place {
  GpuIndex index{};
  Device device = nullptr;
  std::optional<PciAddress> address;
};

// Each pair once, in ascending order; a pair that the driver does not know is left out.
std::vector<Link> read_links(const Calls& calls, std::span<const Place> places);

}  // namespace muster::gpu::nvml
