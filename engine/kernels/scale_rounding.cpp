#include "kernels/scale_rounding.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/codes.hpp"
#include "kernels/dynamic_map.hpp"

namespace muster::kernels {
namespace {

constexpr std::size_t block_scales = 256;

// The middles between neighbouring values in float32, where the library has a code change.
using Bounds = std::array<float, 255>;
Bounds make_bounds() {
  const float* values = signed_map().values;
  Bounds bounds{};
  for (std::size_t i = 0; i < bounds.size(); ++i) bounds[i] = (values[i] + values[i + 1]) / 2;
  return bounds;
}

float mean_of(std::span<const float> numbers) {
  double sum = 0;
  for (const float number : numbers) sum += number;
  return static_cast<float>(sum / static_cast<double>(numbers.size()));
}

}  // namespace

void round_scales(std::span<float> scales) {
  static const Bounds bounds = make_bounds();
  const float offset = mean_of(scales);
  for (std::size_t first = 0; first < scales.size(); first += block_scales) {
    const std::span<float> block = scales.subspan(first, std::min(block_scales, scales.size() - first));
    float most = 0;
    for (const float scale : block) most = std::max(most, std::abs(scale - offset));
    const float divisor = std::max(most, least_magnitude);
    for (float& scale : block) {
      const float distance = scale - offset;
      // The library divides in a short last block, and multiplies in the others.
      const float share = block.size() < block_scales ? distance / divisor : distance * (1.0F / divisor);
      const auto place = std::lower_bound(bounds.begin(), bounds.end(), std::clamp(share, -1.0F, 1.0F));
      const float value = signed_map().values[static_cast<std::size_t>(place - bounds.begin())];
      scale = value * (block.size() < block_scales ? divisor : most) + offset;
    }
  }
}

}  // namespace muster::kernels
