// Rotary position embedding of whole rows: one thread for each pair.
#include "cuda/dispatch.cuh"
#include "cuda/training_kernels.hpp"

namespace muster::cuda {
namespace {

constexpr int threads = 256;

template <class T>
__global__ void __launch_bounds__(threads)
    turn_pairs(const T* input, const float* cosines, const float* sines, std::int64_t pairs, std::int64_t heads,
               std::int64_t half, T* output) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (index >= pairs) return;
  const std::int64_t head = index / half, place = index % half;  // head: of all rows
  const std::int64_t angle = head / heads * half + place, at = head * 2 * half + place;
  const float cosine = widen(narrow<T>(cosines[angle])), sine = widen(narrow<T>(sines[angle]));
  const float first = widen(input[at]), second = widen(input[at + half]);
  const auto rounded = [](float value) { return widen(narrow<T>(value)); };
  output[at] = narrow<T>(rounded(first * cosine) - rounded(second * sine));
  output[at + half] = narrow<T>(rounded(second * cosine) + rounded(first * sine));
}

}  // namespace

LaunchError rotate(Stream stream, Scalar scalar, const void* input, const float* cosines, const float* sines,
                   std::int64_t rows, std::int64_t heads, std::int64_t head_size, void* output) {
  const std::int64_t pairs = rows * heads * (head_size / 2);
  if (pairs == 0) return "";
  return dispatch(scalar, [&](auto element) {
    using T = decltype(element);
    turn_pairs<T>
        <<<static_cast<unsigned>((pairs + threads - 1) / threads), threads, 0, static_cast<cudaStream_t>(stream)>>>(
            static_cast<const T*>(input), cosines, sines, pairs, heads, head_size / 2, static_cast<T*>(output));
  });
}

}  // namespace muster::cuda
