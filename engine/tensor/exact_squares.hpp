// Sums of squares that do not depend on the order of their terms.
//
// Note [Exact squares]
// An exact gradient counts multiples of 2^-44, so its square counts multiples of 2^-88. The squares of 256 consecutive
// values are added up in float64, in a fixed order: the same number wherever a shard begins at a multiple of 256. Those
// numbers are cut into digits of 32 bits, and whole numbers can be added in any order: over blocks, units and ranks.
#pragma once

#include <cmath>
#include <cstdint>

#include "tensor/torch.hpp"

namespace muster::tensor {

inline constexpr int square_digits = 5;
inline constexpr int square_unit_bits = 88;  // the lowest digit counts multiples of 2^-88
inline constexpr int square_digit_bits = 32;

// blocks: TrainingOps::square_blocks of an exact sum → int64 [square_digits], the highest digit first.
inline at::Tensor exact_squares(const at::Tensor& blocks) {
  at::Tensor rest = blocks * std::ldexp(1.0, square_unit_bits - (square_digits - 1) * square_digit_bits);
  std::vector<at::Tensor> digits;
  for (int i = 0; i < square_digits; ++i) {
    const at::Tensor digit = rest.floor();
    digits.push_back(digit.to(at::kLong).sum());
    rest = (rest - digit) * std::ldexp(1.0, square_digit_bits);
  }
  return at::stack(digits);
}

// The number that digits stand for, whatever they were added up over.
inline double square_value(const at::Tensor& digits) {
  const at::Tensor host = digits.cpu();
  double value = 0;
  for (int i = square_digits; i-- > 0;)
    value += std::ldexp(static_cast<double>(host[i].item<std::int64_t>()),
                        (square_digits - 1 - i) * square_digit_bits - square_unit_bits);
  return value;
}

}  // namespace muster::tensor
