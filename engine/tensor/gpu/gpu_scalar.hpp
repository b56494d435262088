// What muster's own kernels need to know about a tensor.
#pragma once

#include <c10/cuda/CUDAStream.h>

#include <stdexcept>
#include <string>

#include "cuda/device_kernels.hpp"
#include "tensor/torch.hpp"

namespace muster::tensor {

inline cuda::Scalar scalar_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kBFloat16:
      return cuda::Scalar::bfloat16;
    case at::kHalf:
      return cuda::Scalar::float16;
    default:
      return cuda::Scalar::float32;
  }
}

inline cuda::Stream current_stream(const at::Tensor& tensor) {
  return c10::cuda::getCurrentCUDAStream(tensor.device().index()).stream();
}

inline void check_launch(cuda::LaunchError error) {
  if (*error != '\0') throw std::runtime_error(std::string("a CUDA kernel did not start: ") + error);
}

}  // namespace muster::tensor
