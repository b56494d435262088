#include "kernels/kernel_table_of.hpp"
#include "kernels/lanes/lanes_portable.hpp"

namespace muster::kernels {

constinit const KernelTable portable_kernels = kernel_table_of<PortableLanes>();

}  // namespace muster::kernels
