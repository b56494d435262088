// What muster's own kernels need to know about a sum.
#pragma once

#include "cuda/training_kernels.hpp"
#include "tensor/gradient_sum.hpp"

namespace muster::tensor {

inline cuda::Sum kernel_sum(const GradientSum& sum) {
  cuda::Sum kernel;
  if (!sum.wanted()) return kernel;
  if (sum.values.scalar_type() == at::kBFloat16) {
    kernel.rounded = sum.values.mutable_data_ptr();
    return kernel;
  }
  if (!sum.exact()) {
    kernel.values = sum.values.mutable_data_ptr<float>();
    return kernel;
  }
  kernel.multiples = sum.values.mutable_data_ptr<std::int64_t>();
  kernel.overflow = sum.overflow.mutable_data_ptr<std::int64_t>();
  return kernel;
}

}  // namespace muster::tensor
