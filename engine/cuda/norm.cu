// Norms: one block of threads for each row, sums in an order that depends on the width alone.
#include "cuda/dispatch.cuh"
#include "cuda/overlap.cuh"
#include "cuda/pack.cuh"
#include "cuda/warp.cuh"

namespace muster::cuda {
namespace {

constexpr int threads = 256;

constexpr int eight = 8;
constexpr int most_packs = 4;  // of a thread

// Everything is on its way before anything is waited for. packs: of a row.
template <class T>
__global__ void __launch_bounds__(threads)
    rms_norm_packs(const T* input, const T* weight, float epsilon, int packs, T* output) {
  const auto* row = reinterpret_cast<const Pack<T, eight>*>(input) + static_cast<std::int64_t>(blockIdx.x) * packs;
  auto* out = reinterpret_cast<Pack<T, eight>*>(output) + static_cast<std::int64_t>(blockIdx.x) * packs;
  const auto* factors = reinterpret_cast<const Pack<T, eight>*>(weight);
  Pack<T, eight> values[most_packs], scales[most_packs];
  let_the_next_begin();
  wait_for_those_before();
#pragma unroll
  for (int i = 0; i < most_packs; ++i)
    if (const int pack = static_cast<int>(threadIdx.x) + i * threads; pack < packs)
      values[i] = row[pack], scales[i] = factors[pack];
  float squares = 0;
#pragma unroll
  for (int i = 0; i < most_packs; ++i)
    if (static_cast<int>(threadIdx.x) + i * threads < packs)
#pragma unroll
      for (int j = 0; j < eight; ++j) {
        const float value = widen(values[i].values[j]);
        squares = __fmaf_rn(value, value, squares);
      }
  const float scale = rsqrtf(block_sum<threads>(squares) / static_cast<float>(packs * eight) + epsilon);
#pragma unroll
  for (int i = 0; i < most_packs; ++i) {
    const int pack = static_cast<int>(threadIdx.x) + i * threads;
    if (pack >= packs) break;
#pragma unroll
    for (int j = 0; j < eight; ++j) {
      const float normed = widen(narrow<T>(widen(values[i].values[j]) * scale));
      values[i].values[j] = narrow<T>(normed * widen(scales[i].values[j]));
    }
    out[pack] = values[i];
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
      launch_overlapping(rms_norm_packs<T>, static_cast<unsigned>(rows), threads, 0, static_cast<cudaStream_t>(stream),
                         static_cast<const T*>(input), static_cast<const T*>(weight), epsilon,
                         static_cast<int>(width / eight), static_cast<T*>(output));
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
