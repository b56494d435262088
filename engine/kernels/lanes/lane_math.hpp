// Functions of a number, sixteen at a time, in explicit FMAs: the same bits in every lane and vector set. Errors are a
// few units in the last place.
#pragma once

#include <cstddef>

namespace muster::kernels {

// coefficients[0] + coefficients[1] x + …
template <class L, std::size_t count>
[[gnu::always_inline]] inline L polynomial(L x, const float (&coefficients)[count]) {
  L sum = L::broadcast(coefficients[count - 1]);
#pragma GCC unroll 16
  for (std::size_t i = 1; i < count; ++i) sum = L::fma(sum, x, L::broadcast(coefficients[count - 1 - i]));
  return sum;
}

// e^x: x = n ln 2 + r with |r| <= ln 2 / 2; Taylor's series of e^r. Gradual underflow; a NaN stays one.
template <class L>
[[gnu::always_inline]] inline L exponential(L x) {
  constexpr float series[] = {1.0F, 1.0F, 1.0F / 2, 1.0F / 6, 1.0F / 24, 1.0F / 120, 1.0F / 720, 1.0F / 5040};
  constexpr float round_by = 0x1.8p23F;  // adding it leaves no bits for a fraction
  x = L::minimum(L::broadcast(89.0F), L::maximum(L::broadcast(-104.0F), x));
  const L n = L::fma(x, L::broadcast(0x1.715476p0F), L::broadcast(round_by)) - L::broadcast(round_by);
  L r = L::fma(n, L::broadcast(-0x1.62e4p-1F), x);   // ln 2, its first sixteen bits
  r = L::fma(n, L::broadcast(-0x1.7f7d1cp-20F), r);  // and the rest
  return L::scale_by_power(polynomial(r, series), n);
}

// ln((1 + s) / (1 - s)) for |s| <= 1/3
template <class L>
[[gnu::always_inline]] inline L twice_artanh(L s) {
  constexpr float series[] = {2.0F, 2.0F / 3, 2.0F / 5, 2.0F / 7, 2.0F / 9, 2.0F / 11, 2.0F / 13, 2.0F / 15};
  return s * polynomial(s * s, series);
}

// For normal positive numbers.
template <class L>
[[gnu::always_inline]] inline L logarithm(L x) {
  L mantissa, exponent;
  L::split_exponent(x, mantissa, exponent);
  const L one = L::broadcast(1.0F);
  const L fraction = twice_artanh((mantissa - one) / (mantissa + one));
  const L low = L::fma(exponent, L::broadcast(0x1.7f7d1cp-20F), fraction);
  return L::fma(exponent, L::broadcast(0x1.62e4p-1F), low);
}

template <class L>
[[gnu::always_inline]] inline L sigmoid(L x) {
  const L one = L::broadcast(1.0F);
  return one / (one + exponential(L::broadcast(0.0F) - x));
}

// ln(1 + e^x)
template <class L>
[[gnu::always_inline]] inline L softplus(L x) {
  const L zero = L::broadcast(0.0F);
  const L small = exponential(zero - L::absolute(x));
  return L::maximum(zero, x) + twice_artanh(small / (small + L::broadcast(2.0F)));
}

template <class L>
[[gnu::always_inline]] inline L hyperbolic_tangent(L x) {
  constexpr float series[] = {0.9999999955F,   -0.3333325145F, 0.1333091717F,
                              -0.05370427744F, 0.020536972F,   -0.005599785037F};  // of tanh(x)/x in x², x² < 0.4
  const L one = L::broadcast(1.0F);
  const L two = L::broadcast(2.0F);
  const L square = x * x;
  const L magnitude = one - two / (exponential(two * L::absolute(x)) + one);
  const L large = L::where_less(x, L::broadcast(0.0F), L::broadcast(0.0F) - magnitude, magnitude);
  return L::where_less(square, L::broadcast(0.4F), x * polynomial(square, series), large);
}

// The normal distribution's share below √2 z, (1 + erf z) / 2. For its tail, e^(z²) erfc(|z|) / 2 is a polynomial in
// 1 / (1 + 0.4 |z|) to 1e-8 for |z| up to 10.5, beyond which the tail is too small for a float32.
template <class L>
[[gnu::always_inline]] inline L normal_share(L z) {
  constexpr float series[] = {-5.92192892e-6F, 0.1129923241F, 0.1110648433F,  0.115643576F,
                              0.03482260726F,  0.2088701051F, -0.260774589F,  0.4018702203F,
                              -0.3375325479F,  0.1338972278F, -0.02084784513F};
  const L one = L::broadcast(1.0F);
  const L size = L::minimum(L::broadcast(10.5F), L::absolute(z));
  const L reciprocal = one / L::fma(size, L::broadcast(0.4F), one);
  const L tail = polynomial(reciprocal, series) * exponential(L::broadcast(0.0F) - size * size);
  return L::where_less(z, L::broadcast(0.0F), tail, one - tail);
}

}  // namespace muster::kernels
