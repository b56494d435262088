// One matrix product, out[rows, columns] = left[rows, inner] · right[inner, columns], as all uses of it share it: the
// linear layer, its two gradients. Inside this layer only.
//
// Note [Chain]: an output is a chain of FMAs over inner in ascending order, restarted every 256, and the partial sums
// are added in ascending order. Tiles, panels, row blocks and threads decide when an output is computed, never how.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/scalar.hpp"

namespace muster::kernels {

constexpr std::int64_t panel_columns = 16;
constexpr std::int64_t inner_block = 256;
constexpr std::int64_t most_block_rows = 240;  // with 256 of inner: what stays in a core's second-level cache
constexpr std::int64_t most_group_panels = 8;

// count things in as few parts as hold at most `most` each, the parts as equal as can be.
class Partition {
 public:
  constexpr Partition(std::int64_t count, std::int64_t most)
      : parts_((count + most - 1) / most), base_(parts_ == 0 ? 0 : count / parts_), longer_(count - base_ * parts_) {}
  constexpr std::int64_t parts() const { return parts_; }
  constexpr std::int64_t start(std::int64_t part) const { return part * base_ + (part < longer_ ? part : longer_); }
  constexpr std::int64_t size(std::int64_t part) const { return base_ + (part < longer_ ? 1 : 0); }

 private:
  std::int64_t parts_, base_, longer_;
};

// Where the right side comes from.
enum class PanelSource {
  packed,      // panels of a PackedMatrix: right = weight transposed
  transposed,  // the same panels, transposed on the way: right = weight
  rows,        // a row-major matrix [inner, columns]
};

// The left side as tiles read it: for each row block, for each 256 of inner, for each tile of rows: [inner][tile rows].
struct LeftSide {
  const void* source = nullptr;
  Scalar scalar = Scalar::float32;
  bool by_columns = false;  // source is [inner, rows] instead of [rows, inner]
  std::int64_t stride = 0;  // elements from one row of source to the next
  std::int64_t rows = 0;
  std::int64_t inner = 0;
  float* packed = nullptr;
};

struct CodedPanels;

struct ProductJob {
  LeftSide left;
  PanelSource source = PanelSource::packed;
  const std::byte* right = nullptr;
  Scalar right_scalar = Scalar::float32;
  const CodedPanels* coded = nullptr;  // packed and transposed: where given, the right side
  std::int64_t right_inner = 0;        // packed and transposed: inputs of the PackedMatrix; rows: elements per row
  std::int64_t columns = 0;
  std::int64_t group = 1;  // panels of one unit of work
  const float* bias = nullptr;
  std::byte* output = nullptr;
  Scalar output_scalar = Scalar::float32;
  std::int64_t output_stride = 0;
  const std::byte* added = nullptr;  // to the output, laid out and stored as it, may be it

  std::int64_t panels() const { return (columns + panel_columns - 1) / panel_columns; }
  std::int64_t groups() const { return (panels() + group - 1) / group; }
};

}  // namespace muster::kernels
