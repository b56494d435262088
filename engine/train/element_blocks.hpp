// Which elements of a tensor of the model's files a piece of a flat one is, as few strided copies.
#pragma once

#include <vector>

#include "parallel/flat_layout.hpp"

namespace muster::train {

// Lines of equal length: element i of line l is number first + l * line_step + i of the file's tensor, and lies in
// the flat one at offset + l * line_stride + i * stride.
struct ElementBlock {
  std::int64_t first = 0;
  std::int64_t lines = 1;
  std::int64_t length = 0;
  std::int64_t line_step = 0;
  std::int64_t offset = 0;
  std::int64_t line_stride = 0;
  std::int64_t stride = 1;

  bool operator==(const ElementBlock&) const = default;
};

// Note [Transposed pieces]
// Row by row of [rows, columns], a piece is an end of one row, whole rows, and a beginning of another. The file has
// [columns, rows], where each column is a line: that of the rows which the piece has of it. Rows begin and end at
// no more than two columns within, so that lines of at most three lengths follow each other: a block each. A whole
// tensor is one block.
std::vector<ElementBlock> blocks_of(const parallel::FlatPiece& piece);

// The elements of a block, in its order; of one flat and of one in the file's order.
at::Tensor view_flat(const at::Tensor& flat, const ElementBlock& block);
at::Tensor view_in_order(const at::Tensor& numbers, const ElementBlock& block);

}  // namespace muster::train
