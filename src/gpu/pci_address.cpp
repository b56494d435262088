#include "gpu/pci_address.hpp"

#include <fmt/format.h>

#include <charconv>
#include <vector>

#include "base/text.hpp"

namespace muster::gpu {
namespace {

std::optional<std::uint32_t> parse_hexadecimal(std::string_view text, std::size_t most_digits) {
  std::uint32_t number = 0;
  if (text.empty() || text.size() > most_digits) return std::nullopt;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  if (failure != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

std::optional<PciAddress> parse_pci_address(std::string_view text) {
  if (text.ends_with(".0")) text.remove_suffix(2);
  std::vector<std::string> parts = split(text, ':');
  if (parts.size() == 2) parts.insert(parts.begin(), "0");
  if (parts.size() != 3) return std::nullopt;
  const auto domain = parse_hexadecimal(parts[0], 8);
  const auto bus = parse_hexadecimal(parts[1], 2);
  const auto device = parse_hexadecimal(parts[2], 2);
  if (!domain || !bus || !device || *device > 0x1f) return std::nullopt;
  return PciAddress{*domain, *bus, *device};
}

std::string to_string(PciAddress address) {
  return fmt::format("{:08X}:{:02X}:{:02X}.0", address.domain, address.bus, address.device);
}

std::string sysfs_name(PciAddress address) {
  return fmt::format("{:04x}:{:02x}:{:02x}.0", address.domain, address.bus, address.device);
}

}  // namespace muster::gpu
