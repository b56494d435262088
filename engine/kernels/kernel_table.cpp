#include "kernels/kernel_table.hpp"

namespace muster::kernels {

const KernelTable& kernel_table(VectorSet set) {
#if defined(__x86_64__)
  if (set == VectorSet::avx2) return avx2_kernels;
  if (set == VectorSet::avx512) return avx512_kernels;
#endif
  static_cast<void>(set);
  return portable_kernels;
}

}  // namespace muster::kernels
