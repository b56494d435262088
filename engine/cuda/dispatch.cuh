// From a run-time type to a compiled one.
#pragma once

#include "cuda/device_kernels.hpp"
#include "cuda/scalar.cuh"

namespace muster::cuda {

// Calls work with a value of the type, which it only looks at.
template <class Work>
LaunchError dispatch(Scalar scalar, Work&& work) {
  switch (scalar) {
    case Scalar::float32:
      work(float{});
      break;
    case Scalar::bfloat16:
      work(__nv_bfloat16{});
      break;
    case Scalar::float16:
      work(__half{});
      break;
  }
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? "" : cudaGetErrorString(error);
}

}  // namespace muster::cuda
