// Double quantisation: the scales of a tensor in 8 bits, as bitsandbytes makes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace muster::kernels {

// So many scales in turn share a step.
constexpr std::size_t scales_a_step = 256;

struct CodedScales {
  float offset = 0;                 // the mean of all
  std::vector<std::uint8_t> codes;  // places in signed_map(): the nearest, ties down
  std::vector<float> steps;         // the largest distance from the mean

  // What is left of a scale.
  float at(std::size_t scale) const;
};
CodedScales code_scales(std::span<const float> scales);

// Each scale becomes what 8 bits leave of it: the mean of all plus, for each 256 in turn, the nearest of a map of 256
// numbers (ties down) times their largest distance from the mean.
void round_scales(std::span<float> scales);

}  // namespace muster::kernels
