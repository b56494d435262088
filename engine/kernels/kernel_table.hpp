// The parts of the kernels that are compiled once per vector set. Inside this layer only.
#pragma once

#include <cstdint>

#include "kernels/packing.hpp"
#include "kernels/product.hpp"
#include "kernels/vector_set.hpp"

namespace muster::kernels {

struct KernelTable {
  void (*pack_panels)(const PackingJob&, std::int64_t, std::int64_t);
  void (*unpack_panels)(const PackingJob&, std::int64_t, std::int64_t);
  void (*pack_left)(const LeftSide&, std::int64_t, std::int64_t);
  void (*multiply)(const ProductJob&, std::int64_t, std::int64_t);
};

const KernelTable& kernel_table(VectorSet set);

extern const KernelTable portable_kernels;
extern const KernelTable avx2_kernels;
extern const KernelTable avx512_kernels;

}  // namespace muster::kernels
