// A bijection of 64 bits in which every input bit changes every output bit half of the time: what chance that follows
// from names and numbers is made of.
#pragma once

#include <cstdint>

namespace muster {

constexpr std::uint64_t mix_bits(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  return bits ^ (bits >> 31);
}

// From 0 up to, but not including bound: even bits give even numbers.
constexpr std::uint64_t bounded(std::uint64_t bits, std::uint64_t bound) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(bits) * bound) >> 64);
}

}  // namespace muster
