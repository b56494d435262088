// CRC-32C (Castagnoli), the checksum of TensorBoard's records and of many file formats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace muster {

// before: the checksum of what precedes these bytes, to continue from.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);
std::uint32_t crc32c(std::string_view text, std::uint32_t before = 0);

}  // namespace muster
