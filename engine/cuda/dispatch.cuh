// From a run-time type to a compiled one.
#pragma once

#include "cuda/device_kernels.hpp"
#include "cuda/scalar.cuh"

namespace muster::cuda {

// What the driver reported about the launches that work made.
template <class Work>
LaunchError launched(Work&& work) {
  work();
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? "" : cudaGetErrorString(error);
}

// Calls work with a value of the type, of which it uses the type alone.
template <class Work>
LaunchError dispatch(Scalar scalar, Work&& work) {
  return launched([&] {
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
  });
}

}  // namespace muster::cuda
