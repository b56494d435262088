// Bytes as a type, with the two families of units kept apart: GiB is 2^30, GB is 10^9.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace muster {

struct ByteCount {
  std::int64_t value = 0;
  auto operator<=>(const ByteCount&) const = default;
};

constexpr ByteCount operator+(ByteCount a, ByteCount b) { return {a.value + b.value}; }
constexpr ByteCount operator-(ByteCount a, ByteCount b) { return {a.value - b.value}; }
constexpr ByteCount mebibytes(std::int64_t count) { return {count << 20}; }
constexpr ByteCount gibibytes(std::int64_t count) { return {count << 30}; }

// Whole MiB, rounded down: the unit nvidia-smi and the guides call MB.
constexpr std::int64_t in_mebibytes(ByteCount bytes) { return bytes.value >> 20; }

// "20GiB", "20 GB", "1.5TiB", "512MiB", "4096" (bytes). Bits ("Gb") and bare "G" are refused: they are ambiguous.
Result<ByteCount> parse_byte_count(std::string_view text);

// "39.4 GiB", "512 MiB", "17 B": binary units, one decimal below 100.
std::string to_string(ByteCount bytes);

}  // namespace muster
