#include "checkpoint/quantized/scale_grid.hpp"

#include <cmath>

#include "checkpoint/number_conversion.hpp"
#include "spec/model/quantized/quantized_parts.hpp"

namespace muster::checkpoint {

Result<void> read_numbers(const SafetensorsSource& files, const std::string& name, std::int64_t first,
                          std::span<float> numbers) {
  const spec::ElementType type = *files.find(name)->element_type;
  const auto size = static_cast<std::size_t>(spec::bytes_per_element(type));
  std::vector<std::byte> bytes(numbers.size() * size);
  if (auto read = files.read_bytes(name, static_cast<std::uint64_t>(first) * size, bytes); !read) return read;
  if (type == spec::ElementType::float8_e8m0 || type == spec::ElementType::uint8) {
    const bool has_nan = type == spec::ElementType::float8_e8m0;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const int exponent = std::to_integer<int>(bytes[i]);
      numbers[i] = has_nan && exponent == 255 ? NAN : std::ldexp(1.0F, exponent - 127);
    }
  } else {
    convert_numbers(type, bytes, spec::ElementType::float32, std::as_writable_bytes(numbers));
  }
  return {};
}

Result<ScaleGrid> ScaleGrid::read(const SafetensorsSource& files, const spec::QuantizedMatrix& matrix,
                                  std::string_view word, const MatrixTile& tile) {
  ScaleGrid grid;
  grid.run_rows_ = matrix.run_rows;
  grid.first_ = tile.first_row / matrix.run_rows;
  grid.width_ = spec::divided_up(matrix.columns, matrix.run_columns);
  const std::int64_t cells = (tile.first_row + tile.rows - 1) / matrix.run_rows + 1 - grid.first_;
  grid.numbers_.resize(static_cast<std::size_t>(cells * grid.width_));
  if (auto read = read_numbers(files, matrix.part(word), grid.first_ * grid.width_, grid.numbers_); !read)
    return read.error();
  return grid;
}

}  // namespace muster::checkpoint
