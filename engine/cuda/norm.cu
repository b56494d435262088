// Norms: a block of threads has a row at a time, sums in an order that depends on the width alone.
#include <algorithm>

#include "cuda/dispatch.cuh"
#include "cuda/dependent_launch.cuh"
#include "cuda/pack.cuh"
#include "cuda/warp.cuh"

namespace muster::cuda {
namespace {

constexpr int threads = 256;

constexpr int eight = 8;
constexpr int most_packs = 4;  // of a thread
constexpr std::int64_t most_blocks = 1024;

// packs: of a row, per_thread of them in each thread. A block has all threads, or one for each pack. It takes every row
// that is gridDim.x after the one before, and loads it while that one is computed.
template <class T, int per_thread>
__global__ void __launch_bounds__(threads)
    rms_norm_packs(const T* input, const T* weight, float epsilon, std::int64_t rows, int packs, T* output) {
  using Values = Pack<T, eight>;
  const auto* const from = reinterpret_cast<const Values*>(input);
  Values values[per_thread], next[per_thread], scales[per_thread];
  const auto read = [&](Values(&to)[per_thread], const Values* row) {
#pragma unroll
    for (int i = 0; i < per_thread; ++i)
      if (const int pack = static_cast<int>(threadIdx.x) + i * threads; pack < packs) to[i] = row[pack];
  };
  let_the_next_begin();
  wait_for_those_before();
  read(next, from + static_cast<std::int64_t>(blockIdx.x) * packs);
  read(scales, reinterpret_cast<const Values*>(weight));
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
#pragma unroll
    for (int i = 0; i < per_thread; ++i) values[i] = next[i];
    if (row + gridDim.x < rows) read(next, from + (row + gridDim.x) * packs);
    float squares = 0;
#pragma unroll
    for (int i = 0; i < per_thread; ++i)
      if (static_cast<int>(threadIdx.x) + i * threads < packs)
#pragma unroll
        for (int j = 0; j < eight; ++j) {
          const float value = widen(values[i].values[j]);
          squares = __fmaf_rn(value, value, squares);
        }
    const float scale = rsqrtf(launched_block_sum(squares) / static_cast<float>(packs * eight) + epsilon);
#pragma unroll
    for (int i = 0; i < per_thread; ++i) {
      const int pack = static_cast<int>(threadIdx.x) + i * threads;
      if (pack >= packs) break;
#pragma unroll
      for (int j = 0; j < eight; ++j) {
        const float normed = widen(narrow<T>(widen(values[i].values[j]) * scale));
        values[i].values[j] = narrow<T>(normed * widen(scales[i].values[j]));
      }
      reinterpret_cast<Values*>(output)[row * packs + pack] = values[i];
    }
  }
}

template <class T>
__global__ void __launch_bounds__(threads)
    rms_norm_rows(const T* input, const T* weight, float epsilon, std::int64_t width, T* output) {
  const T* row = input + static_cast<std::int64_t>(blockIdx.x) * width;
  T* out = output + static_cast<std::int64_t>(blockIdx.x) * width;
  float squares = 0;
  for (std::int64_t i = threadIdx.x; i < width; i += threads) {
    const float value = widen(row[i]);
    squares = __fmaf_rn(value, value, squares);
  }
  const float scale = rsqrtf(block_sum<threads>(squares) / static_cast<float>(width) + epsilon);
  for (std::int64_t i = threadIdx.x; i < width; i += threads) {
    const float normed = widen(narrow<T>(widen(row[i]) * scale));
    out[i] = narrow<T>(normed * widen(weight[i]));
  }
}

template <class T>
__global__ void __launch_bounds__(threads)
    layer_norm_rows(const T* input, const T* weight, const T* bias, float epsilon, std::int64_t width, T* output) {
  const T* row = input + static_cast<std::int64_t>(blockIdx.x) * width;
  T* out = output + static_cast<std::int64_t>(blockIdx.x) * width;
  float sum = 0;
  for (std::int64_t i = threadIdx.x; i < width; i += threads) sum += widen(row[i]);
  const float mean = block_sum<threads>(sum) / static_cast<float>(width);
  float squares = 0;
  for (std::int64_t i = threadIdx.x; i < width; i += threads) {
    const float apart = widen(row[i]) - mean;
    squares = __fmaf_rn(apart, apart, squares);
  }
  const float scale = rsqrtf(block_sum<threads>(squares) / static_cast<float>(width) + epsilon);
  for (std::int64_t i = threadIdx.x; i < width; i += threads)
    out[i] = narrow<T>(__fmaf_rn((widen(row[i]) - mean) * scale, widen(weight[i]), widen(bias[i])));
}

}  // namespace

LaunchError rms_norm(Stream stream, Scalar scalar, const void* input, const void* weight, float epsilon,
                     std::int64_t rows, std::int64_t width, void* output) {
  if (rows == 0) return "";
  return dispatch(scalar, [&](auto element) {
    using T = decltype(element);
    constexpr std::size_t bytes = sizeof(Pack<T, eight>);
    if (width % eight == 0 && width <= threads * eight * most_packs && is_aligned(input, bytes) &&
        is_aligned(weight, bytes) && is_aligned(output, bytes)) {
      const std::int64_t packs = width / eight;
      const auto launch_with = [&](auto kernel) {
        launch_overlapping(kernel, static_cast<unsigned>(std::min(rows, most_blocks)), threads_for(packs, threads), 0,
                           static_cast<cudaStream_t>(stream), static_cast<const T*>(input),
                           static_cast<const T*>(weight), epsilon, rows, static_cast<int>(packs),
                           static_cast<T*>(output));
      };
      if (packs <= threads)
        launch_with(rms_norm_packs<T, 1>);
      else if (packs <= 2 * threads)
        launch_with(rms_norm_packs<T, 2>);
      else
        launch_with(rms_norm_packs<T, most_packs>);
      return;
    }
    rms_norm_rows<T><<<static_cast<unsigned>(rows), threads, 0, static_cast<cudaStream_t>(stream)>>>(
        static_cast<const T*>(input), static_cast<const T*>(weight), epsilon, width, static_cast<T*>(output));
  });
}

LaunchError layer_norm(Stream stream, Scalar scalar, const void* input, const void* weight, const void* bias,
                       float epsilon, std::int64_t rows, std::int64_t width, void* output) {
  if (rows == 0) return "";
  return dispatch(scalar, [&](auto element) {
    using T = decltype(element);
    layer_norm_rows<T><<<static_cast<unsigned>(rows), threads, 0, static_cast<cudaStream_t>(stream)>>>(
        static_cast<const T*>(input), static_cast<const T*>(weight), static_cast<const T*>(bias), epsilon, width,
        static_cast<T*>(output));
  });
}

}  // namespace muster::cuda
