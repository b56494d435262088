#if defined(__x86_64__)

#include "kernels/kernel_table_of.hpp"
#include "kernels/lanes/lanes_avx512.hpp"

namespace muster::kernels {

constinit const KernelTable avx512_kernels = kernel_table_of<Avx512Lanes>();

}  // namespace muster::kernels

#endif
