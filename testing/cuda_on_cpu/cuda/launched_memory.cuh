// The shared memory that a launch asked for, on the CPU.
#pragma once

#include <cuda_runtime.h>

namespace muster::cuda {

template <class T>
T* launched_memory() {
  return reinterpret_cast<T*>(cuda_on_cpu::Threads::current().shared_memory);
}

}  // namespace muster::cuda
