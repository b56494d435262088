// Codes of a few bits that lie one after another in words of 32, the lowest bits first.
#pragma once

#include <cstddef>
#include <cstdint>

namespace muster::spec {

// The code that begins at this bit of words; a code may go on in the next one, which is `step` words on.
inline std::uint32_t bit_field(const std::uint32_t* words, std::int64_t bit, int bits, std::int64_t step = 1) {
  const std::int64_t word = bit / 32;
  const int shift = static_cast<int>(bit % 32);
  std::uint64_t both = words[word * step];
  if (shift + bits > 32) both |= static_cast<std::uint64_t>(words[(word + 1) * step]) << 32;
  return static_cast<std::uint32_t>(both >> shift) & ((std::uint32_t{1} << bits) - 1);
}

}  // namespace muster::spec
