// One product of a tensor core.
#pragma once

#include <type_traits>

#include "cuda/scalar.cuh"

namespace muster::cuda {

// sum[16, 8] += a[16, 16] b[16, 8], as the lanes of a warp have them: lane 4 i + j has rows i and i + 8 of a and sum,
// and column i of b; of what is multiplied it has numbers 2 j, 2 j + 1, 2 j + 8 and 2 j + 9; of sum columns 2 j and 2 j
// + 1. a: row i and row i + 8 of the first two numbers, then of the other two.
template <class T>
__device__ void multiply_tile(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  if constexpr (std::is_same_v<T, __half>)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace muster::cuda
