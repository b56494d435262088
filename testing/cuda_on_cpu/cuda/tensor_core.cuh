// A tensor core's product by its definition, on the CPU: in float32, in the order of what is multiplied.
#pragma once

#include "cuda/scalar.cuh"

namespace muster::cuda {

template <class T>
void multiply_tile(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  struct Operands {
    unsigned a[4], b[2];
  };
  const auto& all = cuda_on_cpu::Threads::current().gather(Operands{{a[0], a[1], a[2], a[3]}, {b0, b1}});
  const auto half_of = [](unsigned both, unsigned at) {
    const auto bits = static_cast<std::uint16_t>(both >> 16 * at);
    return widen(std::bit_cast<T>(bits));
  };
  const unsigned lane = threadIdx.x % cuda_on_cpu::warp_lanes, i = lane / 4, j = lane % 4;
  for (unsigned at = 0; at < 4; ++at)
    for (unsigned k = 0; k < 16; ++k) {
      const unsigned holder = k % 8 / 2, later = k / 8;
      const float left = half_of(all[4 * i + holder].a[2 * later + at / 2], k % 2);
      const float right = half_of(all[4 * (2 * j + at % 2) + holder].b[later], k % 2);
      sum[at] += left * right;
    }
}

}  // namespace muster::cuda
