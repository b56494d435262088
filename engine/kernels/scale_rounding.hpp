// Double quantisation: the scales of a tensor in 8 bits, as bitsandbytes makes them.
#pragma once

#include <span>

namespace muster::kernels {

// Each scale becomes what 8 bits leave of it: the mean of all plus, for each 256 in turn, the nearest of a map of 256
// numbers (ties down) times their largest distance from the mean.
void round_scales(std::span<float> scales);

}  // namespace muster::kernels
