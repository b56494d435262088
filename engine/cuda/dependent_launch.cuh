// Kernels that begin while the ones before them end. One launched this way may do what needs nothing from them (read
// weights), and then waits for them. Chips before Hopper run kernels one after the other, and these do nothing there.
#pragma once

#include <cuda_runtime.h>

namespace muster::cuda {

// What the kernels before this one wrote is there, and what they read may be written over.
__device__ inline void wait_for_those_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The next kernel may begin as soon as there is room for it: when every block of this one has said so, or has ended.
__device__ inline void let_the_next_begin() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Launches a kernel that calls wait_for_those_before(). Errors are left to cudaGetLastError().
template <class... Parameters, class... Arguments>
void launch_overlapping(void (*kernel)(Parameters...), dim3 blocks, unsigned threads, std::size_t shared_bytes,
                        cudaStream_t stream, const Arguments&... arguments) {
  int device = 0, major = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t launch{};
  launch.gridDim = blocks;
  launch.blockDim = dim3(threads);
  launch.dynamicSmemBytes = shared_bytes;
  launch.stream = stream;
  launch.attrs = &overlap;
  launch.numAttrs = major >= 9 ? 1 : 0;
  cudaLaunchKernelEx(&launch, kernel, Parameters(arguments)...);
}

}  // namespace muster::cuda
