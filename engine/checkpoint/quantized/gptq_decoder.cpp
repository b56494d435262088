// Weights as GPTQ's programs write them: words of codes go down the inputs of an output, and those of zero points along
// the outputs of a group.
#include "checkpoint/quantized/group_index.hpp"
#include "checkpoint/quantized/grouped_decoder.hpp"
#include "spec/model/bit_field.hpp"
#include "spec/model/quantized/quantized_parts.hpp"

namespace muster::checkpoint {
namespace {

using spec::QuantizedMatrix;

class GptqDecoder final : public GroupedDecoder {
 public:
  GptqDecoder(const spec::GptqQuantization& method, const SafetensorsSource& files, const Matrices& matrices)
      : GroupedDecoder(files, matrices), method_(method) {}

  std::string_view stored_as(std::size_t) const override {
    return method_.bits == 4 ? "int4" : method_.bits == 8 ? "int8" : "integers";
  }
  bool by_inputs() const override { return true; }

  // What the headers do not show.
  Result<void> check(const QuantizedMatrix& matrix) const {
    const auto groups = groups_of(matrix, 0, matrix.columns);
    return groups ? Result<void>() : groups.error();
  }

 protected:
  Result<std::vector<std::int64_t>> groups_of(const QuantizedMatrix& matrix, std::int64_t first_column,
                                              std::int64_t columns) const override {
    return groups_of_columns(files(), matrix, "g_idx", matrix.run_columns, first_column, columns, false);
  }

  Result<void> read_codes(const QuantizedMatrix& matrix, const MatrixTile& tile,
                          std::span<float> numbers) const override {
    const std::int64_t first_bit = tile.first_column * method_.bits, first_word = first_bit / 32;
    const std::int64_t height = spec::divided_up(first_bit + tile.columns * method_.bits, 32) - first_word;
    const auto words = read_words(matrix, "qweight", {first_word, height, tile.first_row, tile.rows});
    if (!words) return words.error();
    std::size_t place = 0;
    for (std::int64_t row = 0; row < tile.rows; ++row)
      for (std::int64_t i = 0; i < tile.columns; ++i)
        numbers[place++] = static_cast<float>(spec::bit_field(
            words->data() + row, first_bit - 32 * first_word + i * method_.bits, method_.bits, tile.rows));
    return {};
  }

  Result<GroupFactors> read_factors(const QuantizedMatrix& matrix, const MatrixTile& tile, std::int64_t first_group,
                                    std::int64_t groups) const override {
    const std::int64_t first_bit = tile.first_row * method_.bits, first_word = first_bit / 32;
    const std::int64_t width = spec::divided_up(first_bit + tile.rows * method_.bits, 32) - first_word;
    auto scales = read_scales(matrix, {first_group, groups, tile.first_row, tile.rows});
    if (!scales) return scales.error();
    const auto words = read_words(matrix, "qzeros", {first_group, groups, first_word, width});
    if (!words) return words.error();
    GroupFactors factors{std::move(*scales), {}};
    factors.zero_points.reserve(factors.scales.size());
    for (std::int64_t group = 0; group < groups; ++group)
      for (std::int64_t row = 0; row < tile.rows; ++row)
        factors.zero_points.push_back(zero_point(spec::bit_field(
            words->data() + group * width, first_bit - 32 * first_word + row * method_.bits, method_.bits)));
    return factors;
  }

 private:
  // One more than the largest code is 0 again.
  float zero_point(std::uint32_t stored) const {
    const std::uint32_t largest = (std::uint32_t{1} << method_.bits) - 1;
    return static_cast<float>((stored + (method_.zeros_less_one ? 1 : 0)) & largest);
  }

  spec::GptqQuantization method_;
};

}  // namespace

NewDecoder make_decoder(const spec::GptqQuantization& method, const SafetensorsSource& files,
                        const Matrices& matrices) {
  auto decoder = std::make_unique<GptqDecoder>(method, files, matrices);
  for (const QuantizedMatrix& matrix : matrices)
    if (auto checked = decoder->check(matrix); !checked) return checked.error();
  return std::unique_ptr<MatrixDecoder>(std::move(decoder));
}

}  // namespace muster::checkpoint
