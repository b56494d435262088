// Weights as AWQ's programs write them, eight codes of 4 bits in a word: a row for each input (gemm) or output (gemv).
#include <array>

#include "checkpoint/quantized/grouped_decoder.hpp"
#include "spec/model/bit_field.hpp"
#include "spec/model/quantized/quantized_methods.hpp"
#include "spec/model/quantized/quantized_parts.hpp"

namespace muster::checkpoint {
namespace {

using spec::QuantizedMatrix;

// Outputs are along the words, the eight of a word in an order of their own.
class AwqInputDecoder final : public GroupedDecoder {
 public:
  using GroupedDecoder::GroupedDecoder;

  std::string_view stored_as(std::size_t) const override { return "int4"; }
  bool by_inputs() const override { return true; }

 protected:
  Result<void> read_codes(const QuantizedMatrix& matrix, const MatrixTile& tile,
                          std::span<float> numbers) const override {
    const std::int64_t first = tile.first_row / 8, width = words_of(tile);
    const auto words = read_words(matrix, "qweight", {tile.first_column, tile.columns, first, width});
    if (!words) return words.error();
    std::size_t place = 0;
    for (std::int64_t row = tile.first_row; row < tile.first_row + tile.rows; ++row)
      for (std::int64_t i = 0; i < tile.columns; ++i)
        numbers[place++] = code_of((*words)[static_cast<std::size_t>(i * width + row / 8 - first)], row);
    return {};
  }

  Result<GroupFactors> read_factors(const QuantizedMatrix& matrix, const MatrixTile& tile, std::int64_t first_group,
                                    std::int64_t groups) const override {
    const std::int64_t first = tile.first_row / 8, width = words_of(tile);
    auto scales = read_scales(matrix, {first_group, groups, tile.first_row, tile.rows});
    if (!scales) return scales.error();
    const auto words = read_words(matrix, "qzeros", {first_group, groups, first, width});
    if (!words) return words.error();
    GroupFactors factors{std::move(*scales), {}};
    factors.zero_points.reserve(factors.scales.size());
    for (std::int64_t group = 0; group < groups; ++group)
      for (std::int64_t row = tile.first_row; row < tile.first_row + tile.rows; ++row)
        factors.zero_points.push_back(
            code_of((*words)[static_cast<std::size_t>(group * width + row / 8 - first)], row));
    return factors;
  }

 private:
  static std::int64_t words_of(const MatrixTile& tile) {
    return spec::divided_up(tile.first_row + tile.rows, 8) - tile.first_row / 8;
  }

  static float code_of(std::uint32_t word, std::int64_t row) {
    constexpr std::array<int, 8> places{0, 4, 1, 5, 2, 6, 3, 7};
    return static_cast<float>(word >> 4 * places[static_cast<std::size_t>(row % 8)] & 15);
  }
};

// Inputs are along the words, and so are groups, whose words are more than the groups fill.
class AwqOutputDecoder final : public GroupedDecoder {
 public:
  using GroupedDecoder::GroupedDecoder;

  std::string_view stored_as(std::size_t) const override { return "int4"; }

 protected:
  Result<void> read_codes(const QuantizedMatrix& matrix, const MatrixTile& tile,
                          std::span<float> numbers) const override {
    const std::int64_t first = tile.first_column / 8;
    const std::int64_t width = spec::divided_up(tile.first_column + tile.columns, 8) - first;
    const auto words = read_words(matrix, "qweight", {tile.first_row, tile.rows, first, width});
    if (!words) return words.error();
    std::size_t place = 0;
    for (std::int64_t row = 0; row < tile.rows; ++row)
      for (std::int64_t i = 0; i < tile.columns; ++i)
        numbers[place++] = static_cast<float>(
            spec::bit_field(words->data() + row * width, 4 * (tile.first_column - 8 * first + i), 4));
    return {};
  }

  Result<GroupFactors> read_factors(const QuantizedMatrix& matrix, const MatrixTile& tile, std::int64_t first_group,
                                    std::int64_t groups) const override {
    const std::int64_t width = spec::awq_zero_words(matrix.columns, matrix.run_columns);
    const auto scales = read_scales(matrix, {tile.first_row, tile.rows, first_group, groups});
    if (!scales) return scales.error();
    const auto words = read_words(matrix, "qzeros", {tile.first_row, tile.rows, 0, width});
    if (!words) return words.error();
    GroupFactors factors;
    for (std::int64_t group = 0; group < groups; ++group)
      for (std::int64_t row = 0; row < tile.rows; ++row) {
        factors.scales.push_back((*scales)[static_cast<std::size_t>(row * groups + group)]);
        factors.zero_points.push_back(
            static_cast<float>(spec::bit_field(words->data() + row * width, 4 * (first_group + group), 4)));
      }
    return factors;
  }
};

}  // namespace

NewDecoder make_decoder(const spec::AwqQuantization& method, const SafetensorsSource& files,
                        const Matrices& matrices) {
  if (method.layout == spec::AwqQuantization::Layout::by_inputs)
    return std::unique_ptr<MatrixDecoder>(std::make_unique<AwqInputDecoder>(files, matrices));
  return std::unique_ptr<MatrixDecoder>(std::make_unique<AwqOutputDecoder>(files, matrices));
}

}  // namespace muster::checkpoint
