#include "base/checksum.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/bit_mix.hpp"

namespace muster {
namespace {

// Odd, so that multiplying by it loses nothing: two different words never give the same lane.
constexpr std::uint64_t multiplier = 0x9e3779b97f4a7c15u;

std::uint64_t taken(std::uint64_t lane, std::uint64_t word) {
  lane = (lane ^ word) * multiplier;
  return lane ^ (lane >> 32);
}

}  // namespace

std::uint64_t checksum(std::span<const std::byte> bytes, std::uint64_t seed) {
  std::array<std::uint64_t, 4> lanes{seed, seed + 1, seed + 2, seed + 3};
  std::size_t at = 0;
  for (std::array<std::uint64_t, 4> words{}; at + sizeof words <= bytes.size(); at += sizeof words) {
    std::memcpy(words.data(), bytes.data() + at, sizeof words);
    for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i] = taken(lanes[i], words[i]);
  }
  for (std::size_t i = 0; at < bytes.size(); ++i) {
    const std::size_t length = std::min<std::size_t>(8, bytes.size() - at);
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, length);
    lanes[i] = taken(lanes[i], word);
    at += length;
  }
  std::uint64_t sum = mix_bits(bytes.size() + multiplier);
  for (const std::uint64_t lane : lanes) sum = mix_bits((sum ^ lane) + multiplier);
  return sum;
}

}  // namespace muster
