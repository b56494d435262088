// Where a device sits on the PCI bus, whatever way a program spells it.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster::gpu {

struct PciAddress {
  std::uint32_t domain = 0;
  std::uint32_t bus = 0;
  std::uint32_t device = 0;
  auto operator<=>(const PciAddress&) const = default;
};

// "00000000:3B:00.0", "0000:3b:00.0", "0000:3b:00" and "3b:00.0" are the same place. Only function 0 is a GPU.
std::optional<PciAddress> parse_pci_address(std::string_view text);

// nvidia-smi's spelling: "00000000:3B:00.0".
std::string to_string(PciAddress address);

// The folder's name in /sys/bus/pci/devices: "0000:3b:00.0".
std::string sysfs_name(PciAddress address);

}  // namespace muster::gpu
