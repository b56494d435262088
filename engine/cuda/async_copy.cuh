// Copies from the device's memory to a block's shared memory that go on while the block computes.
#pragma once

#include <cuda_runtime.h>

namespace muster::cuda {

// 16 bytes, both aligned to 16. Chips before Ampere wait for them here.
__device__ inline void copy_ahead(void* shared, const void* from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<unsigned>(__cvta_generic_to_shared(shared))),
               "l"(from)
               : "memory");
#else
  *static_cast<uint4*>(shared) = *static_cast<const uint4*>(from);
#endif
}

// This thread's copies since the last call become a group.
__device__ inline void end_copy_group() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits for this thread's copies, but for those of the last `under_way` groups; a barrier shows them to the others.
template <int under_way>
__device__ inline void wait_for_copy_groups() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(under_way) : "memory");
#endif
}
__device__ inline void wait_for_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

}  // namespace muster::cuda
