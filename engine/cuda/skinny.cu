// Products of few rows: the weight is read once, as fast as memory gives it, one warp for two outputs. An output is the
// same sum in the same order for any number of rows.
#include <type_traits>

#include "cuda/dispatch.cuh"
#include "cuda/pack.cuh"
#include "cuda/warp.cuh"

namespace muster::cuda {
namespace {

constexpr int warps = 8;
constexpr int eight = 8;
constexpr int at_once = 2;  // outputs of a warp: what was read of the rows serves both

template <class T, int rows>
__global__ void __launch_bounds__(warps* lanes)
    multiply(const T* weight, const T* bias, const T* input, std::int64_t outputs, std::int64_t packs, bool adds,
             T* output) {
  const std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * warps + threadIdx.x / lanes) * at_once;
  if (first >= outputs) return;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const std::int64_t second = first + 1 < outputs ? first + 1 : first;
  const auto* weights = reinterpret_cast<const Pack<T, eight>*>(weight);
  const auto* inputs = reinterpret_cast<const Pack<T, eight>*>(input);
  float sums[at_once][rows] = {};
#pragma unroll 4
  for (std::int64_t pack = lane; pack < packs; pack += lanes) {
    const Pack<T, eight> a = weights[first * packs + pack], b = weights[second * packs + pack];
#pragma unroll
    for (int row = 0; row < rows; ++row) {
      const Pack<T, eight> x = inputs[row * packs + pack];
#pragma unroll
      for (int i = 0; i < eight; ++i) {
        const float value = widen(x.values[i]);
        sums[0][row] = __fmaf_rn(widen(a.values[i]), value, sums[0][row]);
        sums[1][row] = __fmaf_rn(widen(b.values[i]), value, sums[1][row]);
      }
    }
  }
#pragma unroll
  for (int at = 0; at < at_once; ++at) {
    const std::int64_t column = first + at;
    if (column >= outputs) return;
#pragma unroll
    for (int row = 0; row < rows; ++row) {
      float sum = warp_sum(sums[at][row]);
      if (lane != 0) continue;
      T* to = output + row * outputs + column;
      if (bias != nullptr) sum += widen(bias[column]);
      if (adds) sum += widen(*to);
      *to = narrow<T>(sum);
    }
  }
}

}  // namespace

bool has_skinny_product(Scalar scalar, std::int64_t rows, std::int64_t inputs) {
  return scalar != Scalar::float32 && rows >= 1 && rows <= most_skinny_rows && inputs % eight == 0;
}

LaunchError skinny_product(Stream stream, Scalar scalar, const void* weight, const void* bias, const void* input,
                           std::int64_t rows, std::int64_t outputs, std::int64_t inputs, bool adds, void* output) {
  const auto blocks = static_cast<unsigned>((outputs + warps * at_once - 1) / (warps * at_once));
  return dispatch(scalar, [&](auto element) {
    using T = decltype(element);
    const auto launch = [&](auto count) {
      multiply<T, decltype(count)::value><<<blocks, warps * lanes, 0, static_cast<cudaStream_t>(stream)>>>(
          static_cast<const T*>(weight), static_cast<const T*>(bias), static_cast<const T*>(input), outputs,
          inputs / eight, adds, static_cast<T*>(output));
    };
    switch (rows) {
      case 1:
        return launch(std::integral_constant<int, 1>());
      case 2:
        return launch(std::integral_constant<int, 2>());
      case 3:
        return launch(std::integral_constant<int, 3>());
      default:
        return launch(std::integral_constant<int, 4>());
    }
  });
}

}  // namespace muster::cuda
