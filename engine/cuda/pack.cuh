// Several consecutive elements in one load.
#pragma once

#include <cstdint>

namespace muster::cuda {

template <class T, int count = 16 / sizeof(T)>
struct alignas(sizeof(T) * count) Pack {
  T values[count];
};

// Whether packs of this many bytes can begin here.
inline bool is_aligned(const void* pointer, std::uintptr_t bytes = 16) {
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

}  // namespace muster::cuda
