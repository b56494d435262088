#include "checkpoint/quantized/grouped_decoder.hpp"

#include <algorithm>

namespace muster::checkpoint {

Result<void> GroupedDecoder::decode(std::size_t number, const MatrixTile& tile, std::span<float> numbers) const {
  const spec::QuantizedMatrix& matrix = matrices_[number];
  const auto groups = groups_of(matrix, tile.first_column, tile.columns);
  if (!groups) return groups.error();
  const auto [first, last] = std::ranges::minmax(*groups);
  if (auto read = read_codes(matrix, tile, numbers); !read) return read;
  const auto factors = read_factors(matrix, tile, first, last + 1 - first);
  if (!factors) return factors.error();
  const auto rows = static_cast<std::size_t>(tile.rows), columns = static_cast<std::size_t>(tile.columns);
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t i = 0; i < columns; ++i) {
      const std::size_t place = static_cast<std::size_t>((*groups)[i] - first) * rows + row;
      float& element = numbers[row * columns + i];
      element = (element - factors->zero_points[place]) * factors->scales[place];
    }
  return {};
}

Result<std::vector<std::int64_t>> GroupedDecoder::groups_of(const spec::QuantizedMatrix& matrix,
                                                            std::int64_t first_column, std::int64_t columns) const {
  std::vector<std::int64_t> groups(static_cast<std::size_t>(columns));
  for (std::int64_t i = 0; i < columns; ++i)
    groups[static_cast<std::size_t>(i)] = (first_column + i) / matrix.run_columns;
  return groups;
}

Result<std::vector<std::uint32_t>> GroupedDecoder::read_words(const spec::QuantizedMatrix& matrix,
                                                              std::string_view word, const TensorSlice& slice) const {
  std::vector<std::uint32_t> words(static_cast<std::size_t>(*slice.rows * *slice.columns));
  if (auto read = files_.read(matrix.part(word), slice, spec::ElementType::int32,
                              std::as_writable_bytes(std::span(words)));
      !read)
    return read.error();
  return words;
}

Result<std::vector<float>> GroupedDecoder::read_scales(const spec::QuantizedMatrix& matrix,
                                                       const TensorSlice& slice) const {
  std::vector<float> scales(static_cast<std::size_t>(*slice.rows * *slice.columns));
  if (auto read = files_.read(matrix.part("scales"), slice, spec::ElementType::float32,
                              std::as_writable_bytes(std::span(scales)));
      !read)
    return read.error();
  return scales;
}

}  // namespace muster::checkpoint
