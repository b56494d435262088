// Weights of whole numbers with a scale and a zero point for each output and group of inputs:
// (code - zero point) * scale.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/quantized/matrix_decoder.hpp"

namespace muster::checkpoint {

// What belongs to the outputs of a tile, a row for each of some groups.
struct GroupFactors {
  std::vector<float> scales, zero_points;
};

// Where codes and factors lie is what formats differ in.
class GroupedDecoder : public MatrixDecoder {
 public:
  GroupedDecoder(const SafetensorsSource& files, const Matrices& matrices) : files_(files), matrices_(matrices) {}

  Result<void> decode(std::size_t number, const MatrixTile& tile, std::span<float> numbers) const final;

 protected:
  // The codes of a tile as numbers, row by row.
  virtual Result<void> read_codes(const spec::QuantizedMatrix& matrix, const MatrixTile& tile,
                                  std::span<float> numbers) const = 0;
  virtual Result<GroupFactors> read_factors(const spec::QuantizedMatrix& matrix, const MatrixTile& tile,
                                            std::int64_t first_group, std::int64_t groups) const = 0;
  // The groups of a tile's columns.
  virtual Result<std::vector<std::int64_t>> groups_of(const spec::QuantizedMatrix& matrix, std::int64_t first_column,
                                                      std::int64_t columns) const;

  Result<std::vector<std::uint32_t>> read_words(const spec::QuantizedMatrix& matrix, std::string_view word,
                                                const TensorSlice& slice) const;
  Result<std::vector<float>> read_scales(const spec::QuantizedMatrix& matrix, const TensorSlice& slice) const;
  const SafetensorsSource& files() const { return files_; }

 private:
  Result<GroupFactors> read_touched(const spec::QuantizedMatrix& matrix, const MatrixTile& tile,
                                    std::span<const std::int64_t> groups) const;

  const SafetensorsSource& files_;
  const Matrices& matrices_;
};

}  // namespace muster::checkpoint
