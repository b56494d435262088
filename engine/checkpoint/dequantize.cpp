#include "checkpoint/dequantize.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "checkpoint/number_conversion.hpp"

namespace muster::checkpoint {
namespace {

using spec::GgufType;
using Byte = unsigned char;

// The half at the start of bytes, as a float.
inline float half_at(const Byte* bytes) {
  std::uint16_t half = 0;
  std::memcpy(&half, bytes, sizeof half);
  return half_to_float(half);
}

inline float number(int value) { return static_cast<float>(value); }

// Blocks of 32. The low four bits of byte i are element i, the high four element i + 16; a fifth bit of element i,
// where there is one, is bit i of a word of 32. scale * (value - offset) + minimum.

void unpack_q4_0(const Byte* block, float* out) {
  const float scale = half_at(block);
  const Byte* packed = block + 2;
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * number((packed[i] & 15) - 8);
    out[i + 16] = scale * number((packed[i] >> 4) - 8);
  }
}

void unpack_q4_1(const Byte* block, float* out) {
  const float scale = half_at(block), minimum = half_at(block + 2);
  const Byte* packed = block + 4;
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * number(packed[i] & 15) + minimum;
    out[i + 16] = scale * number(packed[i] >> 4) + minimum;
  }
}

inline int fifth_bit(std::uint32_t high, int i) { return static_cast<int>(high >> i & 1u) << 4; }

inline std::uint32_t word_at(const Byte* bytes) {
  std::uint32_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

void unpack_q5_0(const Byte* block, float* out) {
  const float scale = half_at(block);
  const std::uint32_t high = word_at(block + 2);
  const Byte* packed = block + 6;
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * number(((packed[i] & 15) | fifth_bit(high, i)) - 16);
    out[i + 16] = scale * number(((packed[i] >> 4) | fifth_bit(high, i + 16)) - 16);
  }
}

void unpack_q5_1(const Byte* block, float* out) {
  const float scale = half_at(block), minimum = half_at(block + 2);
  const std::uint32_t high = word_at(block + 4);
  const Byte* packed = block + 8;
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * number((packed[i] & 15) | fifth_bit(high, i)) + minimum;
    out[i + 16] = scale * number((packed[i] >> 4) | fifth_bit(high, i + 16)) + minimum;
  }
}

void unpack_q8_0(const Byte* block, float* out) {
  const float scale = half_at(block);
  for (int i = 0; i < 32; ++i) out[i] = number(static_cast<signed char>(block[2 + i])) * scale;
}

// Blocks of 256, the "K" types: groups of 16 or 32 elements with scales (and minima) of their own, which are packed,
// too, and multiply those of the whole block.

// 16 groups of 16, four bits of scale and four of minimum each; two bits an element, four groups of planes in 32 bytes.
void unpack_q2_k(const Byte* block, float* out) {
  const Byte* scales = block;
  const Byte* packed = block + 16;
  const float scale = half_at(block + 80), minimum = half_at(block + 82);
  for (int group = 0; group < 16; ++group) {
    const float step = scale * number(scales[group] & 15);
    const float offset = minimum * number(scales[group] >> 4);
    const Byte* bytes = packed + 32 * (group / 8) + 16 * (group % 2);
    const int shift = 2 * (group / 2 % 4);
    for (int i = 0; i < 16; ++i) out[16 * group + i] = step * number(bytes[i] >> shift & 3) - offset;
  }
}

// Scales of six bits: four in a nibble of the first eight bytes, two in a pair of bits of the last four.
inline int q3_scale(const Byte* packed, int group) {
  const int low = packed[group % 8] >> 4 * (group / 8) & 15;
  const int high = packed[8 + group % 4] >> 2 * (group / 4) & 3;
  return (low | high << 4) - 32;
}

// Where the third bit is not set, 4 is subtracted.
void unpack_q3_k(const Byte* block, float* out) {
  const Byte* mask = block;
  const Byte* packed = block + 32;
  const float scale = half_at(block + 108);
  for (int group = 0; group < 16; ++group) {
    const float step = scale * number(q3_scale(block + 96, group));
    const int start = 16 * (group % 2);
    const Byte* bytes = packed + 32 * (group / 8) + start;
    const int shift = 2 * (group / 2 % 4);
    for (int i = 0; i < 16; ++i) {
      const int missing = (mask[start + i] >> (group / 2) & 1) == 0 ? 4 : 0;
      out[16 * group + i] = step * number((bytes[i] >> shift & 3) - missing);
    }
  }
}

struct ScaleAndMinimum {
  int scale, minimum;
};

// For Q4_K and Q5_K: six bits each for eight groups, in twelve bytes.
inline ScaleAndMinimum packed_scale(const Byte* packed, int group) {
  if (group < 4) return {packed[group] & 63, packed[group + 4] & 63};
  const int nibbles = packed[group + 4];
  return {(nibbles & 15) | (packed[group - 4] >> 6) << 4, nibbles >> 4 | (packed[group] >> 6) << 4};
}

void unpack_q4_k(const Byte* block, float* out) {
  const float scale = half_at(block), minimum = half_at(block + 2);
  const Byte* packed = block + 16;
  for (int group = 0; group < 8; ++group) {
    const ScaleAndMinimum own = packed_scale(block + 4, group);
    const float step = scale * number(own.scale), offset = minimum * number(own.minimum);
    const Byte* bytes = packed + 32 * (group / 2);
    const int shift = 4 * (group % 2);
    for (int i = 0; i < 32; ++i) out[32 * group + i] = step * number(bytes[i] >> shift & 15) - offset;
  }
}

void unpack_q5_k(const Byte* block, float* out) {
  const float scale = half_at(block), minimum = half_at(block + 2);
  const Byte* high = block + 16;
  const Byte* packed = block + 48;
  for (int group = 0; group < 8; ++group) {
    const ScaleAndMinimum own = packed_scale(block + 4, group);
    const float step = scale * number(own.scale), offset = minimum * number(own.minimum);
    const Byte* bytes = packed + 32 * (group / 2);
    const int shift = 4 * (group % 2);
    for (int i = 0; i < 32; ++i) {
      const int value = (bytes[i] >> shift & 15) | (high[i] >> group & 1) << 4;
      out[32 * group + i] = step * number(value) - offset;
    }
  }
}

// 16 groups of 16; four low bits in nibbles of 64 bytes at a time, two high ones in pairs of 32.
void unpack_q6_k(const Byte* block, float* out) {
  const Byte* high = block + 128;
  const Byte* scales = block + 192;
  const float scale = half_at(block + 208);
  for (int group = 0; group < 16; ++group) {
    const float step = scale * number(static_cast<signed char>(scales[group]));
    const int half = group / 8, quarter = group / 2 % 4, start = 16 * (group % 2);
    const Byte* low_bytes = block + 64 * half + 32 * (quarter % 2) + start;
    const Byte* high_bytes = high + 32 * half + start;
    for (int i = 0; i < 16; ++i) {
      const int low = low_bytes[i] >> 4 * (quarter / 2) & 15;
      const int two = high_bytes[i] >> 2 * quarter & 3;
      out[16 * group + i] = step * number((low | two << 4) - 32);
    }
  }
}

// Numbers that lie closer together around 0.
constexpr std::array<signed char, 16> uneven_numbers{-127, -104, -83, -65, -49, -35, -22, -10,
                                                     1,    13,   25,  38,  53,  69,  89,  113};

// Sixteen bytes of nibbles, the low ones first, as places in a table.
void unpack_looked_up(const Byte* packed, const std::array<signed char, 16>& table, float scale, float* out) {
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * number(table[packed[i] & 15]);
    out[i + 16] = scale * number(table[packed[i] >> 4]);
  }
}

void unpack_iq4_nl(const Byte* block, float* out) { unpack_looked_up(block + 2, uneven_numbers, half_at(block), out); }

// Eight groups of 32 with scales of six bits: two in a pair of bits of a word of 16, four in a nibble.
void unpack_iq4_xs(const Byte* block, float* out) {
  const float scale = half_at(block);
  for (int group = 0; group < 8; ++group) {
    const int high = block[2 + group / 4] >> 2 * (group % 4) & 3, low = block[4 + group / 2] >> 4 * (group % 2) & 15;
    unpack_looked_up(block + 8 + 16 * group, uneven_numbers, scale * number((low | high << 4) - 32), out + 32 * group);
  }
}

// Two times the floats of four bits, times half of a power of two.
void unpack_mxfp4(const Byte* block, float* out) {
  constexpr std::array<signed char, 16> doubled{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  unpack_looked_up(block + 1, doubled, std::ldexp(1.0F, block[0] - 128), out);
}

template <auto unpack>
void unpack_all(GgufType type, std::span<const std::byte> in, std::span<float> out) {
  const auto [elements, bytes] = spec::block_of(type);
  const auto* block = reinterpret_cast<const Byte*>(in.data());
  float* target = out.data();
  for (std::size_t left = in.size() / static_cast<std::size_t>(bytes); left > 0; --left) {
    unpack(block, target);
    block += bytes;
    target += elements;
  }
}

}  // namespace

void dequantize(GgufType type, std::span<const std::byte> in, std::span<float> out) {
  using spec::ElementType;
  switch (type) {
    case GgufType::f32:
      return convert_numbers(ElementType::float32, in, ElementType::float32, std::as_writable_bytes(out));
    case GgufType::f16:
      return convert_numbers(ElementType::float16, in, ElementType::float32, std::as_writable_bytes(out));
    case GgufType::bf16:
      return convert_numbers(ElementType::bfloat16, in, ElementType::float32, std::as_writable_bytes(out));
    case GgufType::q4_0:
      return unpack_all<unpack_q4_0>(type, in, out);
    case GgufType::q4_1:
      return unpack_all<unpack_q4_1>(type, in, out);
    case GgufType::q5_0:
      return unpack_all<unpack_q5_0>(type, in, out);
    case GgufType::q5_1:
      return unpack_all<unpack_q5_1>(type, in, out);
    case GgufType::q8_0:
      return unpack_all<unpack_q8_0>(type, in, out);
    case GgufType::q2_k:
      return unpack_all<unpack_q2_k>(type, in, out);
    case GgufType::q3_k:
      return unpack_all<unpack_q3_k>(type, in, out);
    case GgufType::q4_k:
      return unpack_all<unpack_q4_k>(type, in, out);
    case GgufType::q5_k:
      return unpack_all<unpack_q5_k>(type, in, out);
    case GgufType::q6_k:
      return unpack_all<unpack_q6_k>(type, in, out);
    case GgufType::iq4_nl:
      return unpack_all<unpack_iq4_nl>(type, in, out);
    case GgufType::iq4_xs:
      return unpack_all<unpack_iq4_xs>(type, in, out);
    case GgufType::mxfp4:
      return unpack_all<unpack_mxfp4>(type, in, out);
  }
}

}  // namespace muster::checkpoint
