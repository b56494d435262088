// Which elements of a checkpoint's tensor a piece of a flat one is, as few strided copies.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/logical_tensor.hpp"
#include "parallel/flat_layout.hpp"

namespace muster::train {

// Lines of equal length: element i of line l is number first + l * line_step + i of the checkpoint's tensor, and lies
// in the flat one at offset + l * line_stride + i * stride.
struct ElementBlock {
  std::int64_t first = 0;
  std::int64_t lines = 1;
  std::int64_t length = 0;
  std::int64_t line_step = 0;
  std::int64_t offset = 0;
  std::int64_t line_stride = 0;
  std::int64_t stride = 1;

  std::int64_t count() const { return lines * length; }
  // Whether the checkpoint has all of it one after the other.
  bool is_one_run() const { return lines == 1 || line_step == length; }
  bool operator==(const ElementBlock&) const = default;
};

// Note [Transposed pieces]
// Row by row of [rows, columns], a piece is an end of one row, whole rows, and a beginning of another. The checkpoint
// has [columns, rows], where each column is a line: that of the rows which the piece has of it. Rows begin and end at
// no more than two columns within, so that lines of at most three lengths follow each other: a block each. A whole
// tensor is one block, and one run.
std::vector<ElementBlock> blocks_of(const parallel::FlatPiece& piece);

// The elements of a block, in its order; of one flat and of one in a checkpoint's order.
at::Tensor view_flat(const at::Tensor& flat, const ElementBlock& block);
at::Tensor view_in_order(const at::Tensor& numbers, const ElementBlock& block);

// Appends what a checkpoint's file calls the block, in its order.
void add_pieces(std::vector<checkpoint::Piece>& pieces, const std::string& tensor, const std::string& state,
                const ElementBlock& block);

}  // namespace muster::train
