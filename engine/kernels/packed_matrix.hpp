// A weight matrix [outputs, inputs] in the order that products read it, and the only copy kept of it: panels of sixteen
// outputs, each [inputs][16].
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/scalar.hpp"
#include "kernels/thread_team.hpp"

namespace muster::kernels {

// A view: the memory is the caller's, bytes_needed of it, best aligned to 64 bytes.
class PackedMatrix {
 public:
  PackedMatrix(std::byte* data, std::int64_t outputs, std::int64_t inputs, Scalar scalar)
      : data_(data), outputs_(outputs), inputs_(inputs), scalar_(scalar) {}

  static std::size_t bytes_needed(std::int64_t outputs, std::int64_t inputs, Scalar scalar);

  std::int64_t outputs() const { return outputs_; }
  std::int64_t inputs() const { return inputs_; }
  Scalar scalar() const { return scalar_; }
  std::size_t bytes() const { return bytes_needed(outputs_, inputs_, scalar_); }
  const std::byte* data() const { return data_; }

  // Rows first_row … first_row + rows of the matrix from row-major [rows, inputs]. Rows may come in any order and
  // number; multiples of sixteen are fastest. The matrix is complete when every row has been given.
  void pack_rows(ThreadTeam& team, std::int64_t first_row, std::int64_t rows, const void* row_major, Scalar from);
  // The same from [inputs, row_stride] storage, of which column c is row first_row + c of the matrix.
  void pack_columns(ThreadTeam& team, std::int64_t first_row, std::int64_t rows, const void* column_major,
                    std::int64_t row_stride, Scalar from);

  // One row of the matrix, as embeddings look it up.
  void copy_row(std::int64_t row, void* out, Scalar to) const;
  // The whole as row-major [outputs, inputs].
  void unpack(ThreadTeam& team, void* row_major, Scalar to) const;

 private:
  std::byte* data_;
  std::int64_t outputs_, inputs_;
  Scalar scalar_;
};

}  // namespace muster::kernels
