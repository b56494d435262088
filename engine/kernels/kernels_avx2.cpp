#if defined(__x86_64__)

#include "kernels/kernel_table_of.hpp"
#include "kernels/lanes/lanes_avx2.hpp"

namespace muster::kernels {

constinit const KernelTable avx2_kernels = kernel_table_of<Avx2Lanes>();

}  // namespace muster::kernels

#endif
