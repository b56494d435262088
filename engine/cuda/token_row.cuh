// One row of logits as a token is drawn from it, by one block of threads.
#pragma once

#include "cuda/device_kernels.hpp"
#include "cuda/warp.cuh"
#include "kernels/draw_weight.hpp"

namespace muster::cuda {

constexpr int threads = 1024;

using Count = unsigned long long;  // what atomicAdd takes

// Rises with the logit; it is the same for equal ones, both zeros included.
__device__ inline std::uint32_t ordered(float logit) {
  const std::uint32_t bits = __float_as_uint(logit + 0.0f);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}

// Which tokens of a row may be drawn.
struct TokenRow {
  const float* judged;
  std::int64_t width;
  float highest;
  double temperature;
  std::uint32_t least = 0;  // keys below it are cut off
  std::uint32_t last = 0;   // of this key only the first `ties` tokens stay; keys below it are cut off
  std::int64_t ties = INT64_MAX;
  double least_weight = 0;

  __device__ Count weight(std::int64_t token) const {
    const float logit = judged[token];
    if (isnan(logit)) return 0;
    return kernels::draw_weight(kernels::draw_exponent(logit, highest, temperature));
  }
  // For a token that top_k leaves.
  __device__ Count weight_after_top_k(std::int64_t token) const {
    return ordered(judged[token]) >= least ? weight(token) : 0;
  }
  __device__ bool is_tie(std::int64_t token) const { return !isnan(judged[token]) && ordered(judged[token]) == last; }
  // ties_before: tokens of the key `last` before this one.
  __device__ Count final_weight(std::int64_t token, std::int64_t ties_before) const {
    const std::uint32_t key = ordered(judged[token]);
    if (key < last || (key == last && ties_before >= ties)) return 0;
    const Count found = weight_after_top_k(token);
    return static_cast<double>(found) >= least_weight ? found : 0;
  }
};

// How many tokens of a key stay, so that they and what is above them weigh as much as is wanted.
__device__ inline std::int64_t ties_within(const TokenRow& row, std::uint32_t key, Count above, double wanted) {
  __shared__ std::int64_t ties;
  __syncthreads();
  if (threadIdx.x == 0) {
    const std::uint32_t bits = (key >> 31) != 0 ? key & 0x7fffffffu : ~key;
    const Count each =
        kernels::draw_weight(kernels::draw_exponent(__uint_as_float(bits), row.highest, row.temperature));
    Count before = above;
    ties = 0;
    while (each > 0 && ties < row.width && (before == 0 || static_cast<double>(before) < wanted))
      before += each, ++ties;
  }
  __syncthreads();
  return ties;
}

// What all threads before this one have.
template <class T>
__device__ T exclusive_sum(T value) {
  __shared__ T warps[threads / lanes];
  const int lane = static_cast<int>(threadIdx.x) % lanes, warp = static_cast<int>(threadIdx.x) / lanes;
  T sum = value;
  for (int offset = 1; offset < lanes; offset *= 2) {
    const T other = __shfl_up_sync(whole_warp, sum, static_cast<unsigned>(offset));
    if (lane >= offset) sum += other;
  }
  __syncthreads();
  if (lane == lanes - 1) warps[warp] = sum;
  __syncthreads();
  T before = 0;
  for (int i = 0; i < warp; ++i) before += warps[i];
  return before + sum - value;
}

// The token whose share of the total holds this one is drawn.
__device__ inline Count target_of(double uniform, Count total) {
  const auto wanted = static_cast<Count>(uniform * static_cast<double>(total));
  return wanted < total - 1 ? wanted : total - 1;
}

}  // namespace muster::cuda
