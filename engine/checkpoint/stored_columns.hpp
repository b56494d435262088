// Tensors whose columns are rows of the file.
#pragma once

#include "checkpoint/slice_bounds.hpp"

namespace muster::checkpoint {

// Columns of a slice, one after another: column first + i begins at numbers + i * step.
struct StoredColumns {
  const float* numbers = nullptr;
  std::int64_t step = 0;
  std::int64_t first = 0, count = 0;
};

// Puts them where they belong in out, the slice row by row.
void put_columns(const StoredColumns& columns, const SliceBounds& slice, spec::ElementType as,
                 std::span<std::byte> out);

}  // namespace muster::checkpoint
