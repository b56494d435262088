// Scales that lie over a matrix as a grid: a cell's is shared by rows and columns of elements, at the edges by fewer.
#pragma once

#include <string_view>
#include <vector>

#include "checkpoint/quantized/matrix_decoder.hpp"

namespace muster::checkpoint {

// Numbers of a tensor, floating ones or powers of two (bytes are exponents), from its first-th on.
Result<void> read_numbers(const SafetensorsSource& files, const std::string& name, std::int64_t first,
                          std::span<float> numbers);

// The cells that a tile touches.
class ScaleGrid {
 public:
  // word: the part of the matrix that holds them.
  static Result<ScaleGrid> read(const SafetensorsSource& files, const spec::QuantizedMatrix& matrix,
                                std::string_view word, const MatrixTile& tile);

  // Where the cells that a row of the matrix goes through begin among those of the tile.
  std::size_t place(std::int64_t row) const {
    return static_cast<std::size_t>((row / run_rows_ - first_) * width_);
  }
  const float* row(std::int64_t row) const { return numbers_.data() + place(row); }
  std::int64_t first_row() const { return first_; }  // of the grid
  std::int64_t rows() const { return static_cast<std::int64_t>(numbers_.size()) / width_; }
  std::int64_t width() const { return width_; }

 private:
  std::int64_t run_rows_ = 1, first_ = 0, width_ = 0;
  std::vector<float> numbers_;
};

}  // namespace muster::checkpoint
