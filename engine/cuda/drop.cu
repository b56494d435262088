// Inputs left out by chance. Which ones follows from numbers of rows and places, as tensor/dropout.hpp says, so that
// nothing is kept between a pass and its gradient.
#include <type_traits>

#include "cuda/dependent_launch.cuh"
#include "cuda/dispatch.cuh"
#include "cuda/pack.cuh"
#include "cuda/training_kernels.hpp"

namespace muster::cuda {
namespace {

constexpr unsigned threads = 256;

// base/bit_mix.hpp
__device__ inline std::uint64_t mixed_bits(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  return bits ^ (bits >> 31);
}

template <class T, int count>
__global__ void __launch_bounds__(threads)
    drop_packs(const T* input, const std::int64_t* row_keys, DropRule rule, std::int64_t packs, std::int64_t width,
               T* output) {
  wait_for_those_before();
  let_the_next_begin();
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (index >= packs) return;
  const std::int64_t row = index * count / width, column = index * count % width;
  const auto key = static_cast<std::uint64_t>(row_keys[row]);
  const std::uint64_t first = (static_cast<std::uint64_t>(rule.salt) << 32) + static_cast<std::uint64_t>(column) + 1;
  const float stays = widen(narrow<T>(rule.factor));
  const auto from = reinterpret_cast<const Pack<T, count>*>(input)[index];
  Pack<T, count> to;
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const std::uint64_t draw = mixed_bits(key + (first + static_cast<std::uint64_t>(i)) * 0x9e3779b97f4a7c15u) >> 40;
    to.values[i] = narrow<T>(widen(from.values[i]) * (draw >= rule.limit ? stays : 0.0f));
  }
  reinterpret_cast<Pack<T, count>*>(output)[index] = to;
}

}  // namespace

LaunchError drop(Stream stream, Scalar scalar, const void* input, const std::int64_t* row_keys, const DropRule& rule,
                 std::int64_t rows, std::int64_t width, void* output) {
  if (rows * width == 0) return "";
  return dispatch(scalar, [&](auto element) {
    using T = decltype(element);
    constexpr int count = 16 / sizeof(T);
    const auto launch_packs = [&](auto size) {
      const std::int64_t packs = rows * width / size;
      launch_overlapping(drop_packs<T, size>, static_cast<unsigned>((packs + threads - 1) / threads), threads, 0,
                         static_cast<cudaStream_t>(stream), static_cast<const T*>(input), row_keys, rule, packs, width,
                         static_cast<T*>(output));
    };
    if (width % count == 0 && is_aligned(input) && is_aligned(output))
      launch_packs(std::integral_constant<int, count>{});
    else
      launch_packs(std::integral_constant<int, 1>{});
  });
}

}  // namespace muster::cuda
