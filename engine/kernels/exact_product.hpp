// The product of a weight's gradient with exact sums, as threads share it: sums[rows, columns] += leftᵀ · right, where
// each sequence of inner is one chain (product.hpp, Note [Chain]) and one term. Inside this layer only.
#pragma once

#include <span>

#include "kernels/product.hpp"
#include "kernels/sum.hpp"

namespace muster::kernels {

constexpr std::int64_t most_exact_panels = 4;

// Up to 256 of inner: some whole sequences, or a part of one.
struct InnerChunk {
  std::int64_t first = 0;
  std::int64_t length = 0;
  std::int64_t first_piece = 0;  // of the job's
  std::int64_t pieces = 0;       // sequences, or 1
  bool starts = true;            // with a sequence's beginning
  bool ends = true;

  bool is_whole() const { return starts && ends; }
};

struct ExactProductJob {
  LeftSide left;  // packed: for each row block, for each chunk, for each tile of rows: [inner][tile rows]
  std::span<const InnerChunk> chunks;
  const std::int64_t* pieces = nullptr;  // how much of inner each has
  const void* right = nullptr;           // row-major [inner, columns]
  Scalar right_scalar = Scalar::float32;
  std::int64_t columns = 0;
  std::int64_t group = 1;             // panels of one unit of work, at most most_exact_panels
  std::int64_t* multiples = nullptr;  // [rows, columns]
  std::int64_t* overflow = nullptr;

  std::int64_t panels() const { return (columns + panel_columns - 1) / panel_columns; }
  std::int64_t groups() const { return (panels() + group - 1) / group; }
};

}  // namespace muster::kernels
