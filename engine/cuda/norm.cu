// Norms: one block of threads for each row, sums in an order that depends on the width alone.
#include "cuda/dispatch.cuh"
#include "cuda/warp.cuh"

namespace muster::cuda {
namespace {

constexpr int threads = 256;

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
