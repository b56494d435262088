// What CPU kernels need to know about a tensor.
#pragma once

#include "kernels/scalar.hpp"
#include "tensor/torch.hpp"

namespace muster::tensor {

inline kernels::Scalar scalar_of(at::ScalarType type) {
  switch (type) {
    case at::kBFloat16:
      return kernels::Scalar::bfloat16;
    case at::kHalf:
      return kernels::Scalar::float16;
    default:
      return kernels::Scalar::float32;
  }
}
inline kernels::Scalar scalar_of(const at::Tensor& tensor) { return scalar_of(tensor.scalar_type()); }

}  // namespace muster::tensor
