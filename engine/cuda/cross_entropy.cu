// The loss of tokens and its gradient: one block of threads for each row, which stays in the cache from sweep to sweep.
#include "cuda/dispatch.cuh"
#include "cuda/learning_kernels.hpp"
#include "cuda/warp.cuh"

namespace muster::cuda {
namespace {

constexpr int threads = 1024;  // as choose_tokens has, so that sums run in the same order

template <class T>
__global__ void __launch_bounds__(threads)
    lose(T* logits, const std::int64_t* targets, std::int64_t width, float scale, float* losses) {
  T* const row = logits + static_cast<std::int64_t>(blockIdx.x) * width;
  const std::int64_t target = targets[blockIdx.x];
  const bool known = target >= 0 && target < width;
  const float wanted = known ? widen(row[target]) : NAN;
  float highest = -INFINITY;
  for (std::int64_t token = threadIdx.x; token < width; token += threads) highest = fmaxf(highest, widen(row[token]));
  highest = block_join<threads>(highest, [](float a, float b) { return fmaxf(a, b); });
  float sum = 0;
  for (std::int64_t token = threadIdx.x; token < width; token += threads) sum += expf(widen(row[token]) - highest);
  const float log_sum = logf(block_sum<threads>(sum));
  if (threadIdx.x == 0) losses[blockIdx.x] = log_sum - (wanted - highest);
  const float total = highest + log_sum;
  for (std::int64_t token = threadIdx.x; token < width; token += threads) {
    const float hit = token == target ? 1.0f : 0.0f;
    row[token] = narrow<T>(scale * (expf(widen(row[token]) - total) - hit));
  }
}

}  // namespace

LaunchError cross_entropy(Stream stream, Scalar scalar, void* logits, const std::int64_t* targets, std::int64_t rows,
                          std::int64_t width, float scale, float* losses) {
  if (rows == 0) return "";
  return dispatch(scalar, [&](auto element) {
    using T = decltype(element);
    lose<T><<<static_cast<unsigned>(rows), threads, 0, static_cast<cudaStream_t>(stream)>>>(
        static_cast<T*>(logits), targets, width, scale, losses);
  });
}

}  // namespace muster::cuda
