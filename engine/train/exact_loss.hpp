// The sum of losses of tokens: exact, so that it does not depend on how tokens are laid over passes and ranks.
#pragma once

#include <cmath>
#include <cstdint>

#include "tensor/gradient_sum.hpp"

namespace muster::train {

// Parts of a sum: whole numbers, which add up in any order.
inline constexpr std::int64_t loss_parts = 3;
inline constexpr int low_bits = 32;

// losses: [n], float32 → int64 [loss_parts] on the device: of the multiples of 2^-44 the upper bits and the lower ones,
// added up separately, so that billions of tokens fit; and how many losses are not numbers, or are too large.
inline at::Tensor exact_sum(const at::Tensor& losses) {
  const double scale = std::ldexp(1.0, tensor::exact_bits);
  const at::Tensor wide = losses.to(at::kDouble);
  const at::Tensor good = wide.abs() < tensor::exact_limit;  // false for what is not a number
  const at::Tensor units = (at::where(good, wide, at::zeros_like(wide)) * scale).round().to(at::kLong);
  const at::Tensor upper = at::floor_divide(units, std::int64_t{1} << low_bits);
  const at::Tensor lower = units - upper * (std::int64_t{1} << low_bits);
  return at::stack({upper.sum(), lower.sum(), good.logical_not().sum()});
}


struct LossSum {
  double value = 0;      // of the losses that are numbers
  std::int64_t bad = 0;  // losses that are not

  double mean(std::int64_t tokens) const { return value / static_cast<double>(tokens > 0 ? tokens : 1); }
};

// parts: [loss_parts], whatever they were added up over.
inline LossSum loss_of(const at::Tensor& parts) {
  const at::Tensor host = parts.cpu();
  const std::int64_t lower = host[1].item<std::int64_t>();
  const std::int64_t upper = host[0].item<std::int64_t>() + (lower >> low_bits);
  const std::int64_t rest = lower & ((std::int64_t{1} << low_bits) - 1);
  return {std::ldexp(static_cast<double>(upper), low_bits - tensor::exact_bits) +
              std::ldexp(static_cast<double>(rest), -tensor::exact_bits),
          host[2].item<std::int64_t>()};
}

}  // namespace muster::train
