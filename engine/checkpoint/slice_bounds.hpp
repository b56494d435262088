// A slice with its numbers filled in and checked against its tensor.
#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "checkpoint/tensor_source.hpp"

namespace muster::checkpoint {

// Rows of columns elements. A tensor with one dimension is one column of many rows; one with more than two is one row.
struct SliceBounds {
  std::int64_t tensor_rows = 0, tensor_columns = 0;
  std::int64_t first_row = 0, rows = 0;
  std::int64_t first_column = 0, columns = 0;

  std::int64_t elements() const { return rows * columns; }
  bool whole_rows() const { return columns == tensor_columns; }
};

// Refused: a slice that reaches beyond the tensor, and an out whose size differs from the slice's.
Result<SliceBounds> check_slice(const TensorEntry& entry, const TensorSlice& slice, spec::ElementType as,
                                std::size_t out_bytes);

}  // namespace muster::checkpoint
