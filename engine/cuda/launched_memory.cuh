// The shared memory of a block that its launch asked for.
#pragma once

namespace muster::cuda {

template <class T>
__device__ T* launched_memory() {
  extern __shared__ __align__(16) unsigned char bytes[];
  return reinterpret_cast<T*>(bytes);
}

}  // namespace muster::cuda
