// The maps of bitsandbytes' 8-bit numbers: 256 values from -1 or 0 to 1, dense where numbers of many decades need it. A
// code is a value's place.
#pragma once

#include <bit>
#include <cstdint>

namespace muster::kernels {

// Note [Nearest codes]
// The nearest value of a map is found exactly: a code is the number of middles between neighbouring values that lie
// below the number, so that a tie goes to the lower value. Middles are kept as the largest float32 that is not above
// them, which compares with float32 numbers as they do. No two of them lie in one bucket: the numbers of one sign, one
// exponent and one start of the mantissa. So a number's bucket says how many middles are below all of it, and one
// comparison the rest.
struct DynamicMap {
  static constexpr int bucket_shift = 16;                  // leaves seven bits of the mantissa
  static constexpr std::uint32_t least_bits = 0x34000000;  // 2^-23: below it there is no middle but those of zero
  // The last one begins with 1.
  static constexpr std::uint32_t buckets = ((0x3F800000U - least_bits) >> bucket_shift) + 2;

  alignas(64) float values[256] = {};
  float middles[256] = {};              // the last one is beyond all numbers
  std::uint8_t below[2][buckets] = {};  // by sign and bucket

  // The code of a number from -1 to 1; of NaN any.
  [[gnu::always_inline]] std::uint8_t code_of(float number) const {
    const auto bits = std::bit_cast<std::uint32_t>(number);
    const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
    std::uint32_t bucket = magnitude < least_bits ? 0 : ((magnitude - least_bits) >> bucket_shift) + 1;
    bucket = bucket < buckets ? bucket : buckets - 1;
    const std::uint8_t count = below[bits >> 31][bucket];
    return static_cast<std::uint8_t>(count + (number > middles[count] ? 1 : 0));
  }
};

// For numbers of either sign, 0 among them.
const DynamicMap& signed_map();
// For numbers from 0 on.
const DynamicMap& unsigned_map();

}  // namespace muster::kernels
