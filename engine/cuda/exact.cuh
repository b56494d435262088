// Terms of exact sums: whole multiples of 2^-44, as kernels/sum.hpp has them.
#pragma once

#include "cuda/training_kernels.hpp"

namespace muster::cuda {

using Count = unsigned long long;  // what atomicAdd takes; wraps as a signed number would

// The term, or 0 and one more lost.
__device__ inline Count exact_term(float value, Count& lost) {
  constexpr float limit = 65536.0f;
  if (value > -limit && value < limit) return static_cast<Count>(__double2ll_rn(static_cast<double>(value) * 0x1p44));
  ++lost;
  return 0;
}

__device__ inline void add_whole(std::int64_t* target, Count value) {
  if (value != 0) atomicAdd(reinterpret_cast<Count*>(target), value);
}

}  // namespace muster::cuda
