#include "kernels/vector_set.hpp"

namespace muster::kernels {

bool is_available(VectorSet set) {
#if defined(__x86_64__)
  // The compiler's own test asks the CPU, and whether the kernel keeps these registers across context switches.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  if (set == VectorSet::avx2) return avx2;
  if (set == VectorSet::avx512) return avx2 && __builtin_cpu_supports("avx512f");
#endif
  return set == VectorSet::portable;
}

VectorSet best_vector_set() {
  if (is_available(VectorSet::avx512)) return VectorSet::avx512;
  return is_available(VectorSet::avx2) ? VectorSet::avx2 : VectorSet::portable;
}

std::string_view name(VectorSet set) {
  switch (set) {
    case VectorSet::portable:
      return "portable";
    case VectorSet::avx2:
      return "avx2";
    case VectorSet::avx512:
      return "avx512";
  }
  return "";
}

}  // namespace muster::kernels
