// The gate of a feed-forward block.
#pragma once

#include <type_traits>

#include "cuda/scalar.cuh"

namespace muster::cuda {

// x / (1 + e^-x); for short types with the fast power and quotient, whose errors their rounding hides.
template <class T>
__device__ float silu(float x) {
  if constexpr (std::is_same_v<T, float>)
    return x / (1.0f + expf(-x));
  else
    return __fdividef(x, 1.0f + __expf(-x));
}

// silu(gate) * up, rounded after each of the two.
template <class T>
__device__ T gated_by_silu(T gate, T up) {
  const T activated = narrow<T>(silu<T>(widen(gate)));
  return narrow<T>(widen(activated) * widen(up));
}

}  // namespace muster::cuda
