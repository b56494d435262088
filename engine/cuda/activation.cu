// The feed-forward block's activation, and its gradient.
#include <type_traits>

#include "cuda/dispatch.cuh"
#include "cuda/gate.cuh"
#include "cuda/training_kernels.hpp"
#include "cuda/pack.cuh"

namespace muster::cuda {
namespace {

constexpr int threads = 256;

template <class T, int count>
__global__ void __launch_bounds__(threads) gated_silu_packs(const T* gate, const T* up, std::int64_t stride,
                                                            std::int64_t packs, std::int64_t width, T* output) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (index >= packs) return;
  const std::int64_t row = index * count / width, column = index * count % width;
  const auto a = *reinterpret_cast<const Pack<T, count>*>(gate + row * stride + column);
  const auto b = *reinterpret_cast<const Pack<T, count>*>(up + row * stride + column);
  Pack<T, count> out;
  for (int i = 0; i < count; ++i) out.values[i] = gated_by_silu(a.values[i], b.values[i]);
  *reinterpret_cast<Pack<T, count>*>(output + row * width + column) = out;
}

template <class T, int count>
void launch(cudaStream_t stream, const void* gate, const void* up, std::int64_t stride, std::int64_t rows,
            std::int64_t width, void* output) {
  const std::int64_t packs = rows * width / count;
  gated_silu_packs<T, count><<<static_cast<unsigned>((packs + threads - 1) / threads), threads, 0, stream>>>(
      static_cast<const T*>(gate), static_cast<const T*>(up), stride, packs, width, static_cast<T*>(output));
}

// With s = sigmoid(x): the slope of x · s is s · (1 + x · (1 - s)).
template <class T, int count>
__global__ void __launch_bounds__(threads)
    gated_silu_gradient_packs(const T* gate, const T* up, std::int64_t stride, std::int64_t packs, std::int64_t width,
                              T* output_gradient, T* gradient) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (index >= packs) return;
  const std::int64_t row = index * count / width, column = index * count % width;
  const auto a = *reinterpret_cast<const Pack<T, count>*>(gate + row * stride + column);
  const auto b = *reinterpret_cast<const Pack<T, count>*>(up + row * stride + column);
  auto& given_then_output = reinterpret_cast<Pack<T, count>*>(output_gradient)[index];
  const auto from = given_then_output;
  Pack<T, count> to_gate, to_up, output;
  for (int i = 0; i < count; ++i) {
    const float x = widen(a.values[i]), given = widen(from.values[i]);
    const float sigmoid = 1.0f / (1.0f + expf(-x));
    to_up.values[i] = narrow<T>(given * widen(narrow<T>(x * sigmoid)));
    to_gate.values[i] = narrow<T>(given * widen(b.values[i]) * (sigmoid * (1.0f + x * (1.0f - sigmoid))));
    output.values[i] = gated_by_silu(a.values[i], b.values[i]);
  }
  T* const to = gradient + row * 2 * width + column;
  *reinterpret_cast<Pack<T, count>*>(to) = to_gate;
  *reinterpret_cast<Pack<T, count>*>(to + width) = to_up;
  given_then_output = output;
}

}  // namespace

LaunchError gated_silu_gradient(Stream stream, Scalar scalar, const void* gate, const void* up, std::int64_t stride,
                                std::int64_t rows, std::int64_t width, void* output_gradient, void* gradient) {
  if (rows == 0) return "";
  return dispatch(scalar, [&](auto element) {
    using T = decltype(element);
    constexpr int count = 16 / sizeof(T);
    const auto launch_packs = [&](auto size) {
      const std::int64_t packs = rows * width / size;
      gated_silu_gradient_packs<T, size>
          <<<static_cast<unsigned>((packs + threads - 1) / threads), threads, 0, static_cast<cudaStream_t>(stream)>>>(
              static_cast<const T*>(gate), static_cast<const T*>(up), stride, packs, width,
              static_cast<T*>(output_gradient), static_cast<T*>(gradient));
    };
    if (width % count == 0 && stride % count == 0 && is_aligned(gate) && is_aligned(up) &&
        is_aligned(output_gradient) && is_aligned(gradient))
      launch_packs(std::integral_constant<int, count>{});
    else
      launch_packs(std::integral_constant<int, 1>{});
  });
}

LaunchError gated_silu(Stream stream, Scalar scalar, const void* gate, const void* up, std::int64_t stride,
                       std::int64_t rows, std::int64_t width, void* output) {
  if (rows == 0) return "";
  return dispatch(scalar, [&](auto element) {
    using T = decltype(element);
    constexpr int count = 16 / sizeof(T);
    const auto on = static_cast<cudaStream_t>(stream);
    if (width % count == 0 && stride % count == 0 && is_aligned(gate, 16) && is_aligned(up, 16) &&
        is_aligned(output, 16))
      launch<T, count>(on, gate, up, stride, rows, width, output);
    else
      launch<T, 1>(on, gate, up, stride, rows, width, output);
  });
}

}  // namespace muster::cuda
