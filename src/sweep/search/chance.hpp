// Reproducible random numbers: the same seed gives the same draws on every machine.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "base/bit_mix.hpp"

namespace muster::sweep {

class Chance {
 public:
  // Streams of one seed are independent of each other.
  Chance(std::uint64_t seed, std::uint64_t stream)
      : state_(mix_bits(mix_bits(seed + golden_step) ^ (stream * golden_step))) {}

  std::uint64_t bits() { return mix_bits(state_ += golden_step); }
  // Uniform, from 0 to 1, both excluded.
  double share() { return (static_cast<double>(bits() >> 12) + 0.5) * 0x1p-52; }
  std::uint64_t below(std::uint64_t bound) { return bounded(bits(), bound); }
  double normal() {
    const double radius = std::sqrt(-2 * std::log(share()));
    return radius * std::cos(2 * std::numbers::pi * share());
  }

 private:
  std::uint64_t state_;
};

}  // namespace muster::sweep
