// What muster's kernels use of CUDA, for a compiler that knows none: a test that has this folder on its include path
// before all others compiles their source for the CPU (threads.hpp tells how it runs). Own words of CUDA's interface,
// no more than is used.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "threads.hpp"

#define __device__
#define __global__
#define __shared__ static
#define __grid_constant__
#define __launch_bounds__(...)

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3(unsigned width = 1, unsigned height = 1, unsigned depth = 1) : x(width), y(height), z(depth) {}
};

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) float4 {
  float x, y, z, w;
};

namespace cuda_on_cpu {

// What threads ask for as threadIdx.x.
struct ThreadIndex {
  struct {
    operator unsigned() const { return Threads::current().index; }
  } x;
};
inline dim3 grid, block, block_at;

}  // namespace cuda_on_cpu

inline constexpr cuda_on_cpu::ThreadIndex threadIdx{};
inline const dim3& blockIdx = cuda_on_cpu::block_at;
inline const dim3& blockDim = cuda_on_cpu::block;
inline const dim3& gridDim = cuda_on_cpu::grid;

using std::max;
using std::min;

inline void __syncthreads() { cuda_on_cpu::Threads::current().wait_for_block(); }
inline void __syncwarp() { cuda_on_cpu::Threads::current().gather(0); }

template <class T>
T __shfl_sync(unsigned, T value, int lane, int width = 32) {
  const int own = static_cast<int>(threadIdx.x % cuda_on_cpu::warp_lanes);
  const int from = own / width * width + (lane & (width - 1));
  return cuda_on_cpu::Threads::current().gather(value)[static_cast<unsigned>(from)];
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  const unsigned own = threadIdx.x % cuda_on_cpu::warp_lanes;
  return cuda_on_cpu::Threads::current().gather(value)[own ^ static_cast<unsigned>(mask)];
}

template <class T>
T __ldcs(const T* from) {
  return *from;
}
inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __expf(float x) { return std::exp(x); }

// Four of the eight bytes of both, picked by the nibbles of the selector.
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  const std::uint64_t bytes = std::uint64_t{high} << 32 | low;
  unsigned result = 0;
  for (unsigned i = 0; i < 4; ++i)
    result |= static_cast<unsigned>(bytes >> 8 * (selector >> 4 * i & 7) & 0xFF) << 8 * i;
  return result;
}

using cudaStream_t = void*;
enum cudaError_t { cudaSuccess };
enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount,
  cudaDevAttrComputeCapabilityMajor,
  cudaDevAttrMaxSharedMemoryPerBlockOptin
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };

inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline const char* cudaGetErrorString(cudaError_t) { return ""; }
inline cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = cuda_on_cpu::Threads::current().multiprocessors;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = cuda_on_cpu::Threads::current().block_memory;
      break;
  }
  return cudaSuccess;
}
template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel*, cudaFuncAttribute, int) {
  return cudaSuccess;
}
