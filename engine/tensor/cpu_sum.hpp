// What CPU kernels need to know about a sum.
#pragma once

#include "kernels/sum.hpp"
#include "tensor/gradient_sum.hpp"

namespace muster::tensor {

inline kernels::Sum kernel_sum(const GradientSum& sum) {
  if (!sum.wanted()) return {};
  if (sum.values.scalar_type() == at::kBFloat16)
    return {.rounded = static_cast<kernels::BFloat16*>(sum.values.mutable_data_ptr())};
  if (!sum.exact()) return {.values = sum.values.mutable_data_ptr<float>()};
  return {.multiples = sum.values.mutable_data_ptr<std::int64_t>(),
          .overflow = sum.overflow.mutable_data_ptr<std::int64_t>()};
}

}  // namespace muster::tensor
