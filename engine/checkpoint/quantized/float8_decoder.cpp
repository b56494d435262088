// 8-bit floats with a scale for the whole matrix, for each row, or for each block.
#include <cmath>

#include "checkpoint/number_conversion.hpp"
#include "checkpoint/quantized/float8.hpp"
#include "checkpoint/quantized/scale_grid.hpp"

namespace muster::checkpoint {
namespace {

// One bit of sign, four of exponent, three of fraction.
float e4m3(unsigned byte) {
  const unsigned exponent = byte >> 3 & 15, fraction = byte & 7;
  if (exponent == 15 && fraction == 7) return NAN;
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -9)
                                        : std::ldexp(static_cast<float>(fraction + 8), static_cast<int>(exponent) - 10);
  return byte >= 128 ? -magnitude : magnitude;
}

template <class Value>
std::array<float, 256> table_of(Value value) {
  std::array<float, 256> table{};
  for (unsigned byte = 0; byte < table.size(); ++byte) table[byte] = value(byte);
  return table;
}

class Float8Decoder final : public MatrixDecoder {
 public:
  Float8Decoder(const SafetensorsSource& files, const Matrices& matrices) : files_(files), matrices_(matrices) {}

  std::string_view stored_as(std::size_t) const override { return "float8"; }

  Result<void> decode(std::size_t number, const MatrixTile& tile, std::span<float> numbers) const override {
    const spec::QuantizedMatrix& matrix = matrices_[number];
    const std::string weight = matrix.part("weight");
    const spec::ElementType type = *files_.find(weight)->element_type;
    const std::array<float, 256>& values = float8_values(type);
    std::vector<std::uint8_t> codes(numbers.size());
    const TensorSlice slice{tile.first_row, tile.rows, tile.first_column, tile.columns};
    if (auto read = files_.read(weight, slice, type, std::as_writable_bytes(std::span(codes))); !read) return read;
    const bool plain_name = files_.find(matrix.part("weight_scale")) != nullptr;
    const auto grid = ScaleGrid::read(files_, matrix, plain_name ? "weight_scale" : "weight_scale_inv", tile);
    if (!grid) return grid.error();
    std::size_t place = 0;
    for (std::int64_t row = tile.first_row; row < tile.first_row + tile.rows; ++row) {
      const float* scales = grid->row(row);
      for (std::int64_t column = tile.first_column; column < tile.first_column + tile.columns; ++column, ++place)
        numbers[place] = values[codes[place]] * scales[column / matrix.run_columns];
    }
    return {};
  }

 private:
  const SafetensorsSource& files_;
  const Matrices& matrices_;
};

}  // namespace

const std::array<float, 256>& float8_values(spec::ElementType type) {
  static const std::array<float, 256> e4m3_values = table_of(e4m3);
  static const std::array<float, 256> e5m2_values =
      table_of([](unsigned byte) { return half_to_float(static_cast<std::uint16_t>(byte << 8)); });
  return type == spec::ElementType::float8 ? e4m3_values : e5m2_values;
}

NewDecoder make_decoder(const spec::Float8Quantization&, const SafetensorsSource& files, const Matrices& matrices) {
  return std::unique_ptr<MatrixDecoder>(std::make_unique<Float8Decoder>(files, matrices));
}

}  // namespace muster::checkpoint
