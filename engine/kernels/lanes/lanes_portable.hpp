// Sixteen float32 side by side, in plain C++. lanes_avx2.hpp and lanes_avx512.hpp have the same members, and every
// member gives the same bits in all three.
#pragma once

#include <cstdint>

#include "kernels/scalar.hpp"
#include "kernels/sum.hpp"

namespace muster::kernels {

struct PortableLanes {
  float value[16];

  // The shape of a tile of a matrix product: what fits into the registers. Here nothing does, and little code is best.
  static constexpr int tile_rows = 2;
  static constexpr int panels_at_once(int /*rows*/) { return 1; }

  static PortableLanes broadcast(float x) {
    return make([&](int) { return x; });
  }
  static PortableLanes indices() {
    return make([](int i) { return static_cast<float>(i); });
  }
  template <class Element>
  static PortableLanes load(const Element* source) {
    return make([&](int i) { return widen(source[i]); });
  }

  struct Words {
    std::uint32_t value[16];
  };
  static Words load_words(const std::uint32_t* source) {
    Words words;
    for (int i = 0; i < 16; ++i) words.value[i] = source[i];
    return words;
  }
  // For each lane, the one of the table's sixteen that a nibble of its word names; nibble 0 is the lowest.
  template <int place>
  static PortableLanes look_up(PortableLanes table, Words words) {
    return make([&](int i) { return table.value[(words.value[i] >> (4 * place)) & 0xFU]; });
  }

  template <class Element>
  void store(Element* target) const {
    for (int i = 0; i < 16; ++i) narrow(value[i], target[i]);
  }

  friend PortableLanes operator+(PortableLanes a, PortableLanes b) {
    return make([&](int i) { return a.value[i] + b.value[i]; });
  }
  friend PortableLanes operator-(PortableLanes a, PortableLanes b) {
    return make([&](int i) { return a.value[i] - b.value[i]; });
  }
  friend PortableLanes operator*(PortableLanes a, PortableLanes b) {
    return make([&](int i) { return a.value[i] * b.value[i]; });
  }
  friend PortableLanes operator/(PortableLanes a, PortableLanes b) {
    return make([&](int i) { return a.value[i] / b.value[i]; });
  }
  // a * b + c, rounded once
  static PortableLanes fma(PortableLanes a, PortableLanes b, PortableLanes c) {
    return make([&](int i) { return __builtin_fmaf(a.value[i], b.value[i], c.value[i]); });
  }
  // The second where one of them is a NaN or both are zero.
  static PortableLanes maximum(PortableLanes a, PortableLanes b) {
    return make([&](int i) { return a.value[i] > b.value[i] ? a.value[i] : b.value[i]; });
  }
  static PortableLanes minimum(PortableLanes a, PortableLanes b) {
    return make([&](int i) { return a.value[i] < b.value[i] ? a.value[i] : b.value[i]; });
  }
  static PortableLanes square_root(PortableLanes a) {
    return make([&](int i) { return __builtin_sqrtf(a.value[i]); });
  }
  static PortableLanes absolute(PortableLanes a) {
    return make([&](int i) { return __builtin_fabsf(a.value[i]); });
  }
  // a < b ? x : y, lane by lane
  static PortableLanes where_less(PortableLanes a, PortableLanes b, PortableLanes x, PortableLanes y) {
    return make([&](int i) { return a.value[i] < b.value[i] ? x.value[i] : y.value[i]; });
  }
  // y * 2^n for integral n of magnitude up to 250; rounded once, also where the result is denormal.
  static PortableLanes scale_by_power(PortableLanes y, PortableLanes n) {
    return make([&](int i) {
      const int whole = n.value[i] == n.value[i] ? static_cast<int>(n.value[i]) : 0;
      const int half = whole >> 1;
      return y.value[i] * power_of_two(half) * power_of_two(whole - half);
    });
  }
  // x = mantissa * 2^exponent, mantissa in [sqrt(1/2), sqrt(2)); for normal positive x.
  static void split_exponent(PortableLanes x, PortableLanes& mantissa, PortableLanes& exponent) {
    for (int i = 0; i < 16; ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(x.value[i]) - root_half_bits;
      exponent.value[i] = static_cast<float>(static_cast<std::int32_t>(bits) >> 23);
      mantissa.value[i] = std::bit_cast<float>((bits & 0x7FFFFFU) + root_half_bits);
    }
  }

  // Lane i plus lane i + 8, then 4, 2, 1 apart.
  float sum() const {
    float folded[8];
    for (int i = 0; i < 8; ++i) folded[i] = value[i] + value[i + 8];
    for (int i = 0; i < 4; ++i) folded[i] += folded[i + 4];
    return (folded[0] + folded[2]) + (folded[1] + folded[3]);
  }
  float largest() const {
    float result = value[0];
    for (int i = 1; i < 16; ++i) result = value[i] > result ? value[i] : result;
    return result;
  }

  // The larger magnitude by its bits, so that a NaN is the largest of all. most: such a magnitude, or zero.
  static PortableLanes larger_magnitude(PortableLanes most, PortableLanes x) {
    return make([&](int i) {
      const std::uint32_t bits = std::bit_cast<std::uint32_t>(x.value[i]) & 0x7FFFFFFFU;
      return std::bit_cast<std::uint32_t>(most.value[i]) > bits ? most.value[i] : std::bit_cast<float>(bits);
    });
  }
  // Whether all of them are; a NaN is not.
  bool are_below(float limit) const {
    bool below = true;
    for (int i = 0; i < 16; ++i) below = below && value[i] < limit;
    return below;
  }
  // sums[i] += lane i, rounded to a multiple of 2^-44; for magnitudes below quick_exact_limit.
  void add_exactly(std::int64_t* sums) const {
    for (int i = 0; i < 16; ++i) sums[i] += exact_term(value[i]);
  }

  // target[k * rows + r] = sources[r][k] for k < length.
  template <int rows>
  static void interleave(const float* const* sources, std::int64_t length, float* target) {
    for (std::int64_t k = 0; k < length; ++k) {
      for (int r = 0; r < rows; ++r) target[k * rows + r] = sources[r][k];
    }
  }
  // target[j * 16 + i] = source[i * stride + j] for i, j < 16.
  template <class Element>
  static void transpose(const Element* source, std::int64_t stride, float* target) {
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 16; ++j) target[j * 16 + i] = widen(source[i * stride + j]);
    }
  }

 private:
  static constexpr std::uint32_t root_half_bits = 0x3F3504F3U;

  template <class Give>
  static PortableLanes make(Give&& give) {
    PortableLanes result;
    for (int i = 0; i < 16; ++i) result.value[i] = give(i);
    return result;
  }
  static float power_of_two(int n) { return std::bit_cast<float>(static_cast<std::uint32_t>(n + 127) << 23); }
};

}  // namespace muster::kernels
