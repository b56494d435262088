#include "train/element_blocks.hpp"

#include <algorithm>
#include <array>

namespace muster::train {
namespace {

at::Tensor strided(const at::Tensor& of, const ElementBlock& block, std::int64_t first, std::int64_t line,
                   std::int64_t element) {
  return of.as_strided({block.lines, block.length}, {line, element}, of.storage_offset() + first);
}

}  // namespace

std::vector<ElementBlock> blocks_of(const parallel::FlatPiece& piece) {
  if (!piece.transposed) return {{piece.first, 1, piece.count, piece.count, piece.offset, piece.count, 1}};
  const std::int64_t rows = piece.rows, columns = *piece.columns, end = piece.first + piece.count;
  const std::int64_t begin_column = piece.first % columns, end_column = end % columns;
  const std::array<std::int64_t, 4> bounds{0, std::min(begin_column, end_column), std::max(begin_column, end_column),
                                           columns};
  std::vector<ElementBlock> blocks;
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
    const std::int64_t column = bounds[i], lines = bounds[i + 1] - column;
    const std::int64_t row = piece.first / columns + (column < begin_column ? 1 : 0);
    const std::int64_t length = end / columns + (column < end_column ? 1 : 0) - row;
    if (lines == 0 || length <= 0) continue;
    const std::int64_t offset = piece.offset + row * columns + column - piece.first;
    blocks.push_back({column * rows + row, lines, length, rows, offset, 1, columns});
  }
  return blocks;
}

at::Tensor view_flat(const at::Tensor& flat, const ElementBlock& block) {
  return strided(flat, block, block.offset, block.line_stride, block.stride);
}

at::Tensor view_in_order(const at::Tensor& numbers, const ElementBlock& block) {
  return strided(numbers, block, block.first, block.line_step, 1);
}

}  // namespace muster::train
