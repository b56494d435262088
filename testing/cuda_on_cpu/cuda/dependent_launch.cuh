// Launches on the CPU: all blocks of a kernel, one after the other, before the call returns.
#pragma once

#include <cuda_runtime.h>

namespace muster::cuda {

inline void wait_for_those_before() {}
inline void let_the_next_begin() {}

template <class... Parameters, class... Arguments>
void launch_overlapping(void (*kernel)(Parameters...), dim3 blocks, unsigned threads, std::size_t shared_bytes,
                        cudaStream_t, const Arguments&... arguments) {
  cuda_on_cpu::grid = blocks;
  cuda_on_cpu::block = dim3(threads);
  for (unsigned y = 0; y < blocks.y; ++y)
    for (unsigned x = 0; x < blocks.x; ++x) {
      cuda_on_cpu::block_at = dim3(x, y);
      cuda_on_cpu::Threads::current().run(threads, shared_bytes, [&] { kernel(Parameters(arguments)...); });
    }
}

}  // namespace muster::cuda
