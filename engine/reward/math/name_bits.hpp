// Random bits that follow from a variable's name: the fixed numbers that it stands for.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/bit_mix.hpp"

namespace muster::reward::math {

constexpr std::uint64_t name_bits(std::string_view name, std::uint64_t point) {
  std::uint64_t bits = mix_bits(point + golden_step);
  for (const char c : name) bits = mix_bits(bits + golden_step + static_cast<unsigned char>(c));
  return bits;
}

}  // namespace muster::reward::math
