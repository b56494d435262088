// Sums and maxima over a warp and over a block of threads, in an order that depends on nothing but their size.
#pragma once

#include <cstdint>

namespace muster::cuda {

constexpr int lanes = 32;
constexpr unsigned whole_warp = 0xffffffffu;

// Which warp of its block this is, told so that the compiler knows it to be the same in all lanes.
__device__ inline int own_warp() { return __shfl_sync(whole_warp, static_cast<int>(threadIdx.x) / lanes, 0); }

// The same value in every lane.
__device__ inline float warp_sum(float value) {
  for (int offset = lanes / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(whole_warp, value, offset);
  return value;
}

__device__ inline float warp_max(float value) {
  for (int offset = lanes / 2; offset > 0; offset /= 2)
    value = fmaxf(value, __shfl_xor_sync(whole_warp, value, offset));
  return value;
}

// Joins one value of each thread; the same value in every thread. To be called by all threads of the block.
template <int threads, class T, class Join>
__device__ T block_join(T value, Join join) {
  __shared__ T partial[threads / lanes];
  __syncthreads();  // an earlier one may still be read
  for (int offset = lanes / 2; offset > 0; offset /= 2) value = join(value, __shfl_xor_sync(whole_warp, value, offset));
  if (threadIdx.x % lanes == 0) partial[threadIdx.x / lanes] = value;
  __syncthreads();
  T joined = partial[0];
  for (int i = 1; i < threads / lanes; ++i) joined = join(joined, partial[i]);
  return joined;
}

template <int threads, class T>
__device__ T block_sum(T value) {
  return block_join<threads>(value, [](T a, T b) { return a + b; });
}

// As block_sum, for a block of as many warps as the launch has; what idle ones add does not change a bit.
__device__ inline float launched_block_sum(float value) {
  __shared__ float partial[lanes];
  __syncthreads();
  value = warp_sum(value);
  if (threadIdx.x % lanes == 0) partial[threadIdx.x / lanes] = value;
  __syncthreads();
  float sum = partial[0];
  for (unsigned i = 1; i < blockDim.x / lanes; ++i) sum += partial[i];
  return sum;
}

// The fewest whole warps that have a thread for each of count, but not more than most threads.
inline unsigned threads_for(std::int64_t count, unsigned most) {
  const auto wanted = static_cast<unsigned>((count + lanes - 1) / lanes * lanes);
  return wanted < most ? wanted : most;
}

}  // namespace muster::cuda
