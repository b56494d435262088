#include "kernels/coded/scale_rounding.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "kernels/coded/codes.hpp"
#include "kernels/coded/dynamic_map.hpp"

namespace muster::kernels {
namespace {

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

float CodedScales::at(std::size_t scale) const {
  return signed_map().values[codes[scale]] * steps[scale / scales_a_step] + offset;
}

CodedScales code_scales(std::span<const float> scales) {
  static const Bounds bounds = make_bounds();
  CodedScales coded{.offset = mean_of(scales), .codes = {}, .steps = {}};
  coded.codes.reserve(scales.size());
  for (std::size_t first = 0; first < scales.size(); first += scales_a_step) {
    const std::span<const float> block = scales.subspan(first, std::min(scales_a_step, scales.size() - first));
    const bool is_short = block.size() < scales_a_step;
    float most = 0;
    for (const float scale : block) most = std::max(most, std::abs(scale - coded.offset));
    const float divisor = std::max(most, least_magnitude);
    for (const float scale : block) {
      const float distance = scale - coded.offset;
      // The library divides in a short last block, and multiplies in the others.
      const float share = is_short ? distance / divisor : distance * (1.0F / divisor);
      const auto place = std::lower_bound(bounds.begin(), bounds.end(), std::clamp(share, -1.0F, 1.0F));
      coded.codes.push_back(static_cast<std::uint8_t>(place - bounds.begin()));
    }
    coded.steps.push_back(is_short ? divisor : most);
  }
  return coded;
}

void round_scales(std::span<float> scales) {
  const CodedScales coded = code_scales(scales);
  for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = coded.at(i);
}

}  // namespace muster::kernels
