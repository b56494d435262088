// Weights as the compressed-tensors package writes them: (code - zero point) * scale, with a scale for the tensor, a row, a
// group of a row's elements or a block.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "spec/model/bit_field.hpp"
#include "checkpoint/quantized/float8.hpp"
#include "checkpoint/quantized/group_index.hpp"
#include "checkpoint/quantized/scale_grid.hpp"
#include "spec/model/quantized/quantized_parts.hpp"

namespace muster::checkpoint {
namespace {

using spec::CompressedQuantization;
using spec::QuantizedMatrix;
using Form = CompressedQuantization::Form;

class CompressedDecoder final : public MatrixDecoder {
 public:
  CompressedDecoder(const CompressedQuantization& method, const SafetensorsSource& files, const Matrices& matrices)
      : method_(method), files_(files), matrices_(matrices) {}

  std::string_view stored_as(std::size_t) const override {
    if (method_.form == Form::small_floating) return "float4";
    return method_.form == Form::floating ? "float8" : method_.bits == 4 ? "int4" : method_.bits == 8 ? "int8" : "integers";
  }

  Result<void> decode(std::size_t number, const MatrixTile& tile, std::span<float> numbers) const override {
    const QuantizedMatrix& matrix = matrices_[number];
    if (auto read = read_codes(matrix, tile, numbers); !read) return read;
    const auto scales = ScaleGrid::read(files_, matrix, "weight_scale", tile);
    if (!scales) return scales.error();
    const auto zeros = read_zeros(matrix, *scales);
    if (!zeros) return zeros.error();
    const auto groups =
        groups_of_columns(files_, matrix, "weight_g_idx", matrix.run_columns, tile.first_column, tile.columns, true);
    if (!groups) return groups.error();
    const auto columns = static_cast<std::size_t>(tile.columns);
    for (std::int64_t row = 0; row < tile.rows; ++row, numbers = numbers.subspan(columns)) {
      const std::size_t first = scales->place(tile.first_row + row);
      const float* scale = scales->row(tile.first_row + row);
      for (std::size_t i = 0; i < columns; ++i) {
        const auto cell = static_cast<std::size_t>((*groups)[i]);
        numbers[i] = (numbers[i] - (zeros->empty() ? 0.0F : (*zeros)[first + cell])) * scale[cell];
      }
    }
    return {};
  }

  // What the headers do not show.
  Result<void> check(const QuantizedMatrix& matrix) const {
    const auto groups = groups_of_columns(files_, matrix, "weight_g_idx", matrix.run_columns, 0, matrix.columns, true);
    if (!groups) return groups.error();
    if (method_.form != Form::packed) return {};
    const std::string name = matrix.part("weight_shape");
    std::vector<std::int64_t> shape(2);
    if (*files_.find(name)->element_type == spec::ElementType::int64) {
      if (auto read = files_.read_bytes(name, 0, std::as_writable_bytes(std::span(shape))); !read) return read;
    } else {
      std::vector<std::int32_t> narrow(2);
      if (auto read = files_.read_bytes(name, 0, std::as_writable_bytes(std::span(narrow))); !read) return read;
      std::ranges::copy(narrow, shape.begin());
    }
    if (shape[0] == matrix.rows && shape[1] == matrix.columns) return {};
    return wrong_part(matrix, "weight_shape",
                      fmt::format("says [{}, {}], and the model asks for [{}, {}]", shape[0], shape[1], matrix.rows,
                                  matrix.columns));
  }

 private:
  Result<void> read_codes(const QuantizedMatrix& matrix, const MatrixTile& tile, std::span<float> numbers) const {
    if (method_.form == Form::packed) return read_packed_codes(matrix, tile, numbers);
    if (method_.form == Form::small_floating) return read_small_floats(matrix, tile, numbers);
    const std::string weight = matrix.part("weight");
    std::vector<std::uint8_t> codes(numbers.size());
    const TensorSlice slice{tile.first_row, tile.rows, tile.first_column, tile.columns};
    const spec::ElementType type = *files_.find(weight)->element_type;
    if (auto read = files_.read(weight, slice, type, std::as_writable_bytes(std::span(codes))); !read) return read;
    for (std::size_t i = 0; i < codes.size(); ++i)
      numbers[i] = method_.form == Form::floating ? float8_values(type)[codes[i]]
                                                  : static_cast<float>(static_cast<std::int8_t>(codes[i]));
    return {};
  }

  // Two in a byte, the lower half first.
  Result<void> read_small_floats(const QuantizedMatrix& matrix, const MatrixTile& tile, std::span<float> numbers) const {
    constexpr std::array<float, 16> values{0, 0.5F, 1, 1.5F, 2, 3, 4, 6, -0.0F, -0.5F, -1, -1.5F, -2, -3, -4, -6};
    const std::int64_t first = tile.first_column / 2;
    const std::int64_t width = spec::divided_up(tile.first_column + tile.columns, 2) - first;
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(tile.rows * width));
    if (auto read = files_.read(matrix.part("weight_packed"), {tile.first_row, tile.rows, first, width},
                                spec::ElementType::uint8, std::as_writable_bytes(std::span(bytes)));
        !read)
      return read;
    std::size_t place = 0;
    for (std::int64_t row = 0; row < tile.rows; ++row)
      for (std::int64_t column = tile.first_column; column < tile.first_column + tile.columns; ++column)
        numbers[place++] =
            values[bytes[static_cast<std::size_t>(row * width + column / 2 - first)] >> 4 * (column % 2) & 15];
    return {};
  }

  // Codes follow one another along a row, half of their range added.
  Result<void> read_packed_codes(const QuantizedMatrix& matrix, const MatrixTile& tile, std::span<float> numbers) const {
    const std::int64_t first_bit = tile.first_column * method_.bits, first_word = first_bit / 32;
    const std::int64_t width = spec::divided_up(first_bit + tile.columns * method_.bits, 32) - first_word;
    std::vector<std::uint32_t> words(static_cast<std::size_t>(tile.rows * width));
    const TensorSlice slice{tile.first_row, tile.rows, first_word, width};
    if (auto read = files_.read(matrix.part("weight_packed"), slice, spec::ElementType::int32,
                                std::as_writable_bytes(std::span(words)));
        !read)
      return read;
    std::size_t place = 0;
    for (std::int64_t row = 0; row < tile.rows; ++row)
      for (std::int64_t i = 0; i < tile.columns; ++i)
        numbers[place++] = whole_number(spec::bit_field(words.data() + row * width,
                                                        first_bit - 32 * first_word + i * method_.bits, method_.bits));
    return {};
  }

  float whole_number(std::uint32_t code) const {
    return static_cast<float>(static_cast<std::int32_t>(code) - (1 << (method_.bits - 1)));
  }

  // Those of the cells of the scales; none where codes are symmetric. Packed ones follow one another down a column.
  Result<std::vector<float>> read_zeros(const QuantizedMatrix& matrix, const ScaleGrid& scales) const {
    if (method_.symmetric) return std::vector<float>{};
    const std::int64_t cells = scales.rows() * scales.width();
    std::vector<float> zeros(static_cast<std::size_t>(cells));
    const std::string name = matrix.part("weight_zero_point");
    if (*files_.find(name)->element_type == spec::ElementType::int8) {
      std::vector<std::int8_t> bytes(zeros.size());
      const auto first = static_cast<std::uint64_t>(scales.first_row() * scales.width());
      if (auto read = files_.read_bytes(name, first, std::as_writable_bytes(std::span(bytes))); !read)
        return read.error();
      std::ranges::copy(bytes, zeros.begin());
      return zeros;
    }
    const std::int64_t first_bit = scales.first_row() * method_.bits, first_word = first_bit / 32;
    const std::int64_t height = spec::divided_up(first_bit + scales.rows() * method_.bits, 32) - first_word;
    std::vector<std::uint32_t> words(static_cast<std::size_t>(height * scales.width()));
    if (auto read = files_.read(name, {.first_row = first_word, .rows = height}, spec::ElementType::int32,
                                std::as_writable_bytes(std::span(words)));
        !read)
      return read.error();
    for (std::int64_t row = 0; row < scales.rows(); ++row)
      for (std::int64_t i = 0; i < scales.width(); ++i)
        zeros[static_cast<std::size_t>(row * scales.width() + i)] = whole_number(spec::bit_field(
            words.data() + i, first_bit - 32 * first_word + row * method_.bits, method_.bits, scales.width()));
    return zeros;
  }

  CompressedQuantization method_;
  const SafetensorsSource& files_;
  const Matrices& matrices_;
};

}  // namespace

NewDecoder make_decoder(const CompressedQuantization& method, const SafetensorsSource& files,
                        const Matrices& matrices) {
  auto decoder = std::make_unique<CompressedDecoder>(method, files, matrices);
  for (const QuantizedMatrix& matrix : matrices)
    if (auto checked = decoder->check(matrix); !checked) return checked.error();
  return std::unique_ptr<MatrixDecoder>(std::move(decoder));
}

}  // namespace muster::checkpoint
