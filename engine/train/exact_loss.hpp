// The sum of losses of tokens: exact, so that it does not depend on how tokens are laid over passes and ranks.
#pragma once

#include <cmath>

#include "tensor/gradient_sum.hpp"

namespace muster::train {

// losses: [n], float32 → int64 [1] on the device: multiples of 2^-44. What is no number becomes the largest value,
// which no sum of losses reaches.
inline at::Tensor exact_sum(const at::Tensor& losses) {
  const double scale = std::ldexp(1.0, tensor::exact_bits);
  const at::Tensor finite = at::nan_to_num(losses.to(at::kDouble), tensor::exact_limit, tensor::exact_limit, 0.0);
  return (finite.clamp_max(tensor::exact_limit) * scale).round().to(at::kLong).sum().view({1});
}

inline double loss_of(std::int64_t exact) { return std::ldexp(static_cast<double>(exact), -tensor::exact_bits); }

}  // namespace muster::train
