#include "kernels/scale_rounding.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/codes.hpp"

namespace muster::kernels {
namespace {

// What the signed dynamic map has between 0 and 1: of each decade down to 1e-6 the middles of 64, 32, … 1 equal parts.
constexpr std::array<std::uint32_t, 127> magnitude_bits = {
    0x3513A3B7, 0x365A1A94, 0x370205FF, 0x37B24206, 0x38378034, 0x388AEFB3, 0x38BA1F4B, 0x3923D70B, 0x398CE705,
    0x39C7E283, 0x3A016F01, 0x3A1EECC1, 0x3A3C6A80, 0x3A59E83E, 0x3A7765FF, 0x3AA7EF9D, 0x3AF1A9FC, 0x3B1DB22D,
    0x3B428F5C, 0x3B676C8A, 0x3B8624DD, 0x3B989374, 0x3BAB020D, 0x3BBD70A4, 0x3BCFDF3B, 0x3BE24DD3, 0x3BF4BC6A,
    0x3C039581, 0x3C0CCCCD, 0x3C160418, 0x3C1F3B64, 0x3C3AE148, 0x3C68F5C3, 0x3C8B851F, 0x3CA28F5D, 0x3CB9999A,
    0x3CD0A3D7, 0x3CE7AE15, 0x3CFEB852, 0x3D0AE148, 0x3D166667, 0x3D21EB85, 0x3D2D70A3, 0x3D38F5C3, 0x3D447AE1,
    0x3D500000, 0x3D5B851F, 0x3D670A3D, 0x3D728F5D, 0x3D7E147B, 0x3D84CCCD, 0x3D8A8F5D, 0x3D9051EB, 0x3D96147B,
    0x3D9BD70A, 0x3DA1999A, 0x3DA75C2A, 0x3DAD1EB8, 0x3DB2E148, 0x3DB8A3D7, 0x3DBE6667, 0x3DC428F7, 0x3DC9EB85,
    0x3DDB3334, 0x3DF80000, 0x3E0A6666, 0x3E18CCCD, 0x3E273333, 0x3E35999A, 0x3E440000, 0x3E526666, 0x3E60CCCD,
    0x3E6F3333, 0x3E7D9999, 0x3E860000, 0x3E8D3334, 0x3E946666, 0x3E9B999A, 0x3EA2CCCC, 0x3EAA0000, 0x3EB13333,
    0x3EB86666, 0x3EBF999A, 0x3EC6CCCC, 0x3ECE0000, 0x3ED53333, 0x3EDC6666, 0x3EE3999A, 0x3EEACCCC, 0x3EF20000,
    0x3EF93332, 0x3F003333, 0x3F03CCCC, 0x3F076666, 0x3F0B0000, 0x3F0E999A, 0x3F123334, 0x3F15CCCD, 0x3F196666,
    0x3F1D0000, 0x3F20999A, 0x3F243334, 0x3F27CCCD, 0x3F2B6666, 0x3F2F0000, 0x3F32999A, 0x3F363334, 0x3F39CCCD,
    0x3F3D6666, 0x3F410000, 0x3F44999A, 0x3F483333, 0x3F4BCCCD, 0x3F4F6666, 0x3F530000, 0x3F56999A, 0x3F5A3333,
    0x3F5DCCCD, 0x3F616666, 0x3F650000, 0x3F68999A, 0x3F6C3333, 0x3F6FCCCD, 0x3F736666, 0x3F770000, 0x3F7A999A,
    0x3F7E3333};

struct DynamicMap {
  std::array<float, 256> values{};
  std::array<float, 255> bounds{};
};

constexpr DynamicMap make_map() {
  DynamicMap map;
  for (std::size_t i = 0; i < magnitude_bits.size(); ++i) {
    map.values[128 + i] = std::bit_cast<float>(magnitude_bits[i]);
    map.values[126 - i] = -map.values[128 + i];
  }
  map.values[255] = 1;
  for (std::size_t i = 0; i < 255; ++i) map.bounds[i] = (map.values[i] + map.values[i + 1]) / 2;
  return map;
}
constexpr DynamicMap map = make_map();

float mean_of(std::span<const float> numbers) {
  double sum = 0;
  for (const float number : numbers) sum += number;
  return static_cast<float>(sum / static_cast<double>(numbers.size()));
}

}  // namespace

const std::array<float, 256>& scale_map() { return map.values; }

float CodedScales::at(std::size_t scale) const {
  return map.values[codes[scale]] * steps[scale / scales_a_step] + offset;
}

CodedScales code_scales(std::span<const float> scales) {
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
      const auto place = std::lower_bound(map.bounds.begin(), map.bounds.end(), std::clamp(share, -1.0F, 1.0F));
      coded.codes.push_back(static_cast<std::uint8_t>(place - map.bounds.begin()));
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
