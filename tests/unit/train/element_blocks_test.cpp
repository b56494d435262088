#include "train/element_blocks.hpp"

#include <gtest/gtest.h>

#include <map>

namespace muster::train {
namespace {

using parallel::FlatPiece;

// Every element of the piece by its number in a checkpoint's order: where it lies in the flat one.
std::map<std::int64_t, std::int64_t> one_by_one(const FlatPiece& piece) {
  std::map<std::int64_t, std::int64_t> places;
  for (std::int64_t i = 0; i < piece.count; ++i) {
    const std::int64_t row = (piece.first + i) / *piece.columns, column = (piece.first + i) % *piece.columns;
    places[piece.transposed ? column * piece.rows + row : piece.first + i] = piece.offset + i;
  }
  return places;
}

TEST(ElementBlocks, HoldEachElementOfAnyPieceOnceAndWhereItIs) {
  for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{5, 4}, {1, 6}, {6, 1}, {3, 7}})
    for (const bool transposed : {false, true})
      for (std::int64_t first = 0; first < rows * columns; ++first)
        for (std::int64_t count = 1; first + count <= rows * columns; ++count) {
          const FlatPiece piece{"t", first, 11, count, rows, columns, transposed};
          const auto blocks = blocks_of(piece);
          EXPECT_LE(blocks.size(), transposed ? 3U : 1U);
          std::map<std::int64_t, std::int64_t> places;
          std::int64_t elements = 0;
          for (const ElementBlock& block : blocks)
            for (std::int64_t line = 0; line < block.lines; ++line)
              for (std::int64_t i = 0; i < block.length; ++i, ++elements)
                places[block.first + line * block.line_step + i] =
                    block.offset + line * block.line_stride + i * block.stride;
          ASSERT_EQ(places, one_by_one(piece)) << rows << " x " << columns << ", " << count << " from " << first;
          ASSERT_EQ(elements, count);
        }
}

TEST(ElementBlocks, OfAWholeTensorAreOne) {
  for (const bool transposed : {false, true}) EXPECT_EQ(blocks_of({"t", 0, 256, 35, 5, 7, transposed}).size(), 1U);
}

TEST(ElementBlocks, ViewsOfBothOrdersAreTheSameNumbers) {
  const at::Tensor whole = at::rand({9, 6}, at::kFloat);
  const at::Tensor flat = whole.view({-1}), in_order = whole.t().contiguous().view({-1});
  for (const ElementBlock& block : blocks_of({"t", 8, 8, 31, 9, 6, true}))
    EXPECT_TRUE(view_flat(flat, block).equal(view_in_order(in_order, block)));
}

}  // namespace
}  // namespace muster::train
