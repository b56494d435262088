#include "base/crc32c.hpp"

#include <array>

namespace muster {
namespace {

constexpr std::uint32_t polynomial = 0x82F63B78;  // bits reversed, as the register shifts to the right

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? polynomial : 0);
    table[byte] = value;
  }
  return table;
}

constexpr std::array table = make_table();

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  std::uint32_t value = ~before;
  for (const std::byte byte : bytes)
    value = (value >> 8) ^ table[(value ^ std::to_integer<std::uint32_t>(byte)) & 0xFF];
  return ~value;
}

std::uint32_t crc32c(std::string_view text, std::uint32_t before) {
  return crc32c(std::as_bytes(std::span(text.data(), text.size())), before);
}

}  // namespace muster
