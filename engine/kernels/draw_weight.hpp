// The arithmetic of drawing a token, the same bits on every CPU and GPU: IEEE operations whose results are defined, and
// no product that a compiler could join with a sum.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define MUSTER_EVERYWHERE __host__ __device__ __forceinline__
#else
#define MUSTER_EVERYWHERE [[gnu::always_inline]] inline
#endif

namespace muster::kernels {

constexpr double certain_weight = 0x1p40;  // of the likeliest token

MUSTER_EVERYWHERE std::uint64_t bits_of(double value) {
#ifdef __CUDA_ARCH__
  return static_cast<std::uint64_t>(__double_as_longlong(value));
#else
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
#endif
}

MUSTER_EVERYWHERE double from_bits(std::uint64_t bits) {
#ifdef __CUDA_ARCH__
  return __longlong_as_double(static_cast<long long>(bits));
#else
  double value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
#endif
}

// 2^40 e^x to the nearest whole number, for x <= 0; 0 for a NaN. x = n ln 2 + r with |r| <= ln 2 / 2; Taylor's series
// of e^r, whose error is below 2^-52.
MUSTER_EVERYWHERE std::uint64_t draw_weight(double x) {
  const bool counts = x >= -30.0;  // below -41 ln 2, the nearest is 0
  const double power = counts ? x : 0.0;
  const double shifted = fma(power, 0x1.71547652b82fep0, 0x1.8p52);  // the last bits are n
  const double n = shifted - 0x1.8p52;
  double r = fma(n, -0x1.62e42fefa39efp-1, power);
  r = fma(n, -0x1.abc9e3b39803fp-56, r);
  double sum = 1.0 / 479001600;
  sum = fma(sum, r, 1.0 / 39916800);
  sum = fma(sum, r, 1.0 / 3628800);
  sum = fma(sum, r, 1.0 / 362880);
  sum = fma(sum, r, 1.0 / 40320);
  sum = fma(sum, r, 1.0 / 5040);
  sum = fma(sum, r, 1.0 / 720);
  sum = fma(sum, r, 1.0 / 120);
  sum = fma(sum, r, 1.0 / 24);
  sum = fma(sum, r, 1.0 / 6);
  sum = fma(sum, r, 1.0 / 2);
  sum = fma(sum, r, 1.0);
  sum = fma(sum, r, 1.0);
  const double scale = from_bits((bits_of(shifted) + 1063) << 52);            // 2^(40 + n)
  const std::uint64_t weight = bits_of(fma(sum, scale, 0x1p52)) << 12 >> 12;  // no bits are left for a fraction
  return counts ? weight : 0;
}

// A logit as it is judged where its token was seen before.
MUSTER_EVERYWHERE float penalized(float logit, float penalty) { return logit < 0 ? logit * penalty : logit / penalty; }

// How far below the highest a logit is, at a temperature: draw_weight's x.
MUSTER_EVERYWHERE double draw_exponent(float judged, float highest, double temperature) {
  return (static_cast<double>(judged) - static_cast<double>(highest)) / temperature;
}

}  // namespace muster::kernels
