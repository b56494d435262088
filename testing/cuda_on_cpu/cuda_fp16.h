// CUDA's float16, as far as muster's kernels use it.
#pragma once

#include "cuda_runtime.h"

struct __half {
  std::uint16_t bits;
};
struct __half2 {
  __half x, y;
};

inline float __half2float(__half value) {
  const unsigned magnitude = value.bits & 0x7FFFU, fraction = magnitude & 0x3FFU;
  const int exponent = static_cast<int>(magnitude >> 10);
  const float sign = (value.bits & 0x8000U) != 0 ? -1.0F : 1.0F;
  if (exponent == 31) return sign * (fraction != 0 ? NAN : INFINITY);
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(fraction + 0x400U), exponent - 25);
}
inline __half __float2half_rn(float value) {
  const auto sign = static_cast<unsigned>(std::signbit(value) ? 0x8000 : 0);
  if (std::isnan(value)) return {0x7FFF};
  const float magnitude = std::fabs(value);
  if (magnitude >= 65520.0F) return {static_cast<std::uint16_t>(sign | 0x7C00U)};
  // In steps of the last place that its power of two leaves; the host rounds to the nearest and to even on ties. A
  // fraction that is rounded up to the next power carries into the exponent's bits.
  const int power = magnitude < 0x1p-14F ? -14 : std::ilogb(magnitude);
  const auto steps = static_cast<unsigned>(std::nearbyint(std::ldexp(magnitude, 10 - power)));
  return {static_cast<std::uint16_t>(sign | (steps + static_cast<unsigned>(power + 14) * 0x400U))};
}
inline __half2 __floats2half2_rn(float x, float y) { return {__float2half_rn(x), __float2half_rn(y)}; }
