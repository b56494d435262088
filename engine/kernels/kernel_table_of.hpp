// Every kernel for one kind of lanes. Included once per vector set.
#pragma once

#include "kernels/kernel_table.hpp"
#include "kernels/packing_kernels.hpp"
#include "kernels/product_kernels.hpp"

namespace muster::kernels {

template <class L>
constexpr KernelTable kernel_table_of() {
  return {
      .pack_panels = &PackingKernels<L>::pack_panels,
      .unpack_panels = &PackingKernels<L>::unpack_panels,
      .pack_left = &ProductKernels<L>::pack_left,
      .multiply = &ProductKernels<L>::multiply,
  };
}

}  // namespace muster::kernels
