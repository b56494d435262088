// Copies to shared memory, on the CPU: done at once.
#pragma once

#include <cuda_runtime.h>

namespace muster::cuda {

inline void copy_ahead(void* shared, const void* from) { std::memcpy(shared, from, 16); }
inline void end_copy_group() {}
template <int under_way>
void wait_for_copy_groups() {}
inline void wait_for_copies() {}

}  // namespace muster::cuda
