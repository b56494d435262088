#include "convert/weight_coder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

#include "kernels/coded/coded_matrix.hpp"
#include "kernels/coded/dynamic_map.hpp"
#include "kernels/coded/scale_rounding.hpp"

namespace muster::convert {
namespace {

constexpr std::int64_t slice_bytes = std::int64_t{16} << 20;

kernels::Scalar scalar_of(spec::ElementType type) {
  switch (type) {
    case spec::ElementType::bfloat16:
      return kernels::Scalar::bfloat16;
    case spec::ElementType::float16:
      return kernels::Scalar::float16;
    default:
      return kernels::Scalar::float32;
  }
}

kernels::Code code_of(spec::PackedCode code) {
  switch (code) {
    case spec::PackedCode::nf4:
      return kernels::Code::nf4;
    case spec::PackedCode::fp4:
      return kernels::Code::fp4;
    case spec::PackedCode::int8:
      break;
  }
  return kernels::Code::int8;
}

// Every slice but the last ends where a run does.
std::int64_t rows_of_slice(const CodedWeight& weight) {
  const std::int64_t run = weight.packing.run;
  const std::int64_t step = weight.packing.bits() == 8 ? 1 : run / std::gcd(run, weight.columns);
  const std::int64_t row_bytes = weight.columns * spec::bytes_per_element(weight.coded_from);
  return std::max<std::int64_t>(1, slice_bytes / std::max<std::int64_t>(1, row_bytes * step)) * step;
}

template <class Number>
void transpose(std::span<const std::byte> band, std::int64_t rows, std::int64_t columns, std::span<std::byte> out) {
  const auto* from = reinterpret_cast<const Number*>(band.data());
  auto* to = reinterpret_cast<Number*>(out.data());
  for (std::int64_t column = 0; column < columns; ++column)
    for (std::int64_t row = 0; row < rows; ++row) to[row * columns + column] = from[column * rows + row];
}

}  // namespace

// Into rows_.
Result<void> WeightCoder::read_rows(const CodedWeight& weight, std::int64_t first, std::int64_t rows) {
  const std::int64_t element = spec::bytes_per_element(weight.coded_from);
  rows_.resize(static_cast<std::size_t>(rows * weight.columns * element));
  if (!weight.transposed)
    return source_.read(weight.name, {.first_row = first, .rows = rows}, weight.coded_from, rows_);
  band_.resize(rows_.size());
  if (auto read = source_.read(weight.name, {.first_column = first, .columns = rows}, weight.coded_from, band_); !read)
    return read;
  if (element == 2)
    transpose<std::uint16_t>(band_, rows, weight.columns, rows_);
  else
    transpose<std::uint32_t>(band_, rows, weight.columns, rows_);
  return {};
}

Result<void> WeightCoder::code_slice(const CodedWeight& weight, std::int64_t first, std::int64_t rows,
                                     std::span<float> magnitudes) {
  if (auto read = read_rows(weight, first, rows); !read) return read;
  const std::int64_t elements = rows * weight.columns;
  const bool has_bytes = weight.packing.bits() == 8;
  codes_.resize(static_cast<std::size_t>(has_bytes ? elements : (elements + 1) / 2));
  const kernels::CodedForm form{code_of(weight.packing.code), weight.packing.run};
  kernels::code_rows(team_, form, {rows, weight.columns, rows_.data(), scalar_of(weight.coded_from)},
                     {codes_, magnitudes});
  if (!std::ranges::all_of(magnitudes, [](float number) { return std::isfinite(number); }))
    return Error{Error::Kind::refused,
                 fmt::format("{} has infinite numbers, or what is not a number{}", weight.name,
                             has_bytes ? ", in float16" : ""),
                 "check the model, or leave the module as it is: --skip-modules"};
  const std::int64_t offset = first * weight.columns / (has_bytes ? 1 : 2);
  if (auto put = writer_.write_part(weight.name, static_cast<std::uint64_t>(offset), std::as_bytes(std::span(codes_)));
      !put)
    return put;
  advance_(rows_.size());
  return {};
}

Result<void> WeightCoder::write_four_bit_scales(const CodedWeight& weight, std::span<const float> magnitudes) {
  const auto put = [&](std::string_view word, auto numbers) {
    return writer_.write(weight.part(word), std::as_bytes(std::span(numbers)));
  };
  float offset = 0;
  if (weight.packing.double_quantized) {
    const kernels::CodedScales scales = kernels::code_scales(magnitudes);
    offset = scales.offset;
    if (auto done = put("weight.absmax", std::span(scales.codes)); !done) return done;
    if (auto done = put("weight.nested_absmax", std::span(scales.steps)); !done) return done;
    if (auto done = put("weight.nested_quant_map", std::span(kernels::signed_map().values)); !done) return done;
  } else if (auto done = put("weight.absmax", magnitudes); !done) {
    return done;
  }
  const kernels::CodeTable& table = kernels::code_table(code_of(weight.packing.code));
  if (auto done = put("weight.quant_map", std::span(table.values)); !done) return done;
  const std::string state = state_text(weight, offset);
  return writer_.write(state_name(weight), std::as_bytes(std::span(state)));
}

Result<void> WeightCoder::code(const CodedWeight& weight) {
  std::vector<float> magnitudes(static_cast<std::size_t>(weight.runs()));
  const std::int64_t step = rows_of_slice(weight);
  std::span<float> left = magnitudes;
  for (std::int64_t first = 0; first < weight.rows; first += step) {
    CodedWeight slice = weight;
    slice.rows = std::min(step, weight.rows - first);
    const std::span<float> own = left.first(static_cast<std::size_t>(slice.runs()));
    if (auto coded = code_slice(weight, first, slice.rows, own); !coded) return coded;
    left = left.subspan(own.size());
  }
  if (weight.packing.bits() == 4) return write_four_bit_scales(weight, magnitudes);
  if (auto done = writer_.write(weight.part("SCB"), std::as_bytes(std::span(magnitudes))); !done) return done;
  return writer_.write(weight.part("weight_format"), std::array{std::byte{0}});  // row by row
}

}  // namespace muster::convert
