#include "checkpoint/quantized/grouped_decoder.hpp"

#include <algorithm>

namespace muster::checkpoint {

Result<void> GroupedDecoder::decode(std::size_t number, const MatrixTile& tile, std::span<float> numbers) const {
  const spec::QuantizedMatrix& matrix = matrices_[number];
  const auto groups = groups_of(matrix, tile.first_column, tile.columns);
  if (!groups) return groups.error();
  std::vector<std::int64_t> touched = *groups;
  std::ranges::sort(touched);
  touched.erase(std::ranges::unique(touched).begin(), touched.end());
  if (auto read = read_codes(matrix, tile, numbers); !read) return read;
  const auto factors = read_touched(matrix, tile, touched);
  if (!factors) return factors.error();
  std::vector<std::size_t> places;  // of the columns, where their groups' factors begin
  for (const std::int64_t group : *groups)
    places.push_back(static_cast<std::size_t>((std::ranges::lower_bound(touched, group) - touched.begin()) * tile.rows));
  const auto rows = static_cast<std::size_t>(tile.rows), columns = static_cast<std::size_t>(tile.columns);
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t i = 0; i < columns; ++i) {
      float& element = numbers[row * columns + i];
      element = (element - factors->zero_points[places[i] + row]) * factors->scales[places[i] + row];
    }
  return {};
}

// Groups that follow one another are read at once: those of a tile may lie anywhere.
Result<GroupFactors> GroupedDecoder::read_touched(const spec::QuantizedMatrix& matrix, const MatrixTile& tile,
                                                  std::span<const std::int64_t> groups) const {
  GroupFactors all;
  for (std::size_t first = 0; first < groups.size();) {
    std::size_t end = first + 1;
    while (end < groups.size() && groups[end] == groups[end - 1] + 1) ++end;
    const auto factors = read_factors(matrix, tile, groups[first], static_cast<std::int64_t>(end - first));
    if (!factors) return factors.error();
    all.scales.insert(all.scales.end(), factors->scales.begin(), factors->scales.end());
    all.zero_points.insert(all.zero_points.end(), factors->zero_points.begin(), factors->zero_points.end());
    first = end;
  }
  return all;
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
