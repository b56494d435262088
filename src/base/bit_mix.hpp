// A bijection of 64 bits in which every input bit changes every output bit half of the time: the basis of randomness
// derived from names and numbers.
#pragma once

#include <cstdint>

namespace muster {

// 2^64 divided by the golden ratio: multiples of it lie far apart.
constexpr std::uint64_t golden_step = 0x9e3779b97f4a7c15u;

constexpr std::uint64_t mix_bits(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  return bits ^ (bits >> 31);
}

// From 0 up to, but not including bound: uniform bits give uniform numbers.
constexpr std::uint64_t bounded(std::uint64_t bits, std::uint64_t bound) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(bits) * bound) >> 64);
}

}  // namespace muster
