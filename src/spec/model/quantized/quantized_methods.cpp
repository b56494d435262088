#include "spec/model/quantized/quantized_methods.hpp"

#include <fmt/format.h>

#include <array>

namespace muster::spec {
namespace {

constexpr std::array<std::string_view, 2> float8_parts{"weight_scale_inv", "weight_scale"};
constexpr std::array<std::string_view, 2> compressed_parts{"weight_packed", "weight_scale"};
constexpr auto scale_types = {ElementType::float32, ElementType::bfloat16, ElementType::float16};
constexpr std::array<std::string_view, 3> grouped_parts{"qweight", "qzeros", "scales"};
constexpr std::array<std::string_view, 4> bitsandbytes_parts{"weight.absmax", "weight.quant_state.bitsandbytes__nf4",
                                                             "weight.quant_state.bitsandbytes__fp4", "SCB"};

void check_eight_bits(QuantizedParts& parts) {
  const auto [rows, columns] = std::pair(parts.matrix().rows, parts.matrix().columns);
  parts.require("weight", {ElementType::int8}, {{rows, columns}});
  parts.require("SCB", {ElementType::float32}, {{rows}});
  if (parts.has("weight_format")) parts.require("weight_format", {ElementType::uint8}, {{}, {1}});
  parts.hold_codes({.code = PackedCode::int8});
}

// How many elements share a scale is in the state; of so many scales the header tells it. Rows are computed with as codes
// where they are whole runs.
std::optional<std::int64_t> run_of(const QuantizedMatrix& matrix, std::int64_t scales) {
  for (const std::int64_t run : {64, 128, 256, 512, 1024, 2048, 4096, 32, 16, 8, 4, 2})
    if (divided_up(matrix.rows * matrix.columns, run) == scales)
      return matrix.columns % run == 0 ? std::optional(run) : std::nullopt;
  return std::nullopt;
}

// How many runs there are is said by the state, which the header does not show: only what the bytes are is checked.
void check_four_bits(QuantizedParts& parts) {
  const std::int64_t elements = parts.matrix().rows * parts.matrix().columns;
  if (const StoredTensor* weight = parts.require("weight"); weight != nullptr)
    if (weight->end - weight->begin != static_cast<std::uint64_t>(divided_up(elements, 2)))
      parts.note("weight", fmt::format("has {} bytes, and {} elements of 4 bits do not", weight->end - weight->begin,
                                       elements));
  parts.require("weight.quant_map", {ElementType::float32}, {{16}});
  const bool nested = parts.has("weight.nested_absmax");
  const StoredTensor* absmax = parts.require("weight.absmax");
  if (absmax != nullptr && absmax->type != (nested ? ElementType::uint8 : ElementType::float32))
    parts.note("weight.absmax",
               fmt::format("is {} {} nested_absmax", name(absmax->type), nested ? "beside" : "without"));
  if (nested) {
    static_cast<void>(parts.require("weight.nested_absmax"));
    parts.require("weight.nested_quant_map", {ElementType::float32}, {{256}});
  }
  const bool nf4 = parts.has(state_part(PackedCode::nf4));
  if (nf4 && parts.has(state_part(PackedCode::fp4)))
    parts.note("weight.quant_state", "is there for nf4 and for fp4");
  const PackedCode code = !nf4 && parts.has(state_part(PackedCode::fp4)) ? PackedCode::fp4 : PackedCode::nf4;
  static_cast<void>(parts.require(state_part(code)));
  if (absmax == nullptr) return;
  if (const auto run = run_of(parts.matrix(), absmax->dimensions.elements())) parts.hold_codes({code, *run, nested});
}

void check_small_floats(QuantizedParts& parts) {
  const auto [rows, columns] = std::pair(parts.matrix().rows, parts.matrix().columns);
  parts.divides("runs", 32, "columns", columns);
  parts.share_scales(1, 32);
  parts.require("weight_packed", {ElementType::uint8}, {{rows, columns / 2}});
  parts.require("weight_scale", {ElementType::uint8, ElementType::float8_e8m0}, {{rows, columns / 32}});
}

std::span<const std::string_view> parts_of(const BitsAndBytesQuantization&) { return bitsandbytes_parts; }
std::span<const std::string_view> parts_of(const Float8Quantization&) { return float8_parts; }
std::span<const std::string_view> parts_of(const CompressedQuantization&) { return compressed_parts; }
std::span<const std::string_view> parts_of(const GptqQuantization&) { return grouped_parts; }
std::span<const std::string_view> parts_of(const AwqQuantization&) { return grouped_parts; }

}  // namespace

std::span<const std::string_view> parts_of_codes(const CheckpointQuantization& quantization) {
  return std::visit([](const auto& method) { return parts_of(method); }, quantization);
}

std::string state_part(PackedCode code) {
  return code == PackedCode::nf4 ? "weight.quant_state.bitsandbytes__nf4" : "weight.quant_state.bitsandbytes__fp4";
}

void check_parts(const BitsAndBytesQuantization&, QuantizedParts& parts) {
  const StoredTensor* weight = parts.find("weight");
  const bool eight_bits = parts.has("SCB") || (weight != nullptr && weight->type == ElementType::int8);
  if (eight_bits)
    check_eight_bits(parts);
  else
    check_four_bits(parts);
}

// The scales' own sizes tell what shares them. Both names mean a factor.
void check_parts(const Float8Quantization& method, QuantizedParts& parts) {
  const auto [rows, columns] = std::pair(parts.matrix().rows, parts.matrix().columns);
  parts.require("weight", {ElementType::float8, ElementType::float8_e5m2}, {{rows, columns}});
  parts.ignore("input_scale");
  parts.ignore("activation_scale");
  const std::string_view word = parts.has("weight_scale") ? "weight_scale" : "weight_scale_inv";
  const StoredTensor* scale = parts.find(word);
  const std::int64_t count = scale == nullptr ? 0 : scale->dimensions.elements();
  const auto types = {ElementType::float32, ElementType::bfloat16, ElementType::float16, ElementType::float8_e8m0};
  if (count == 1) {
    parts.share_scales(rows, columns);
    parts.require(word, types, {{}, {1}, {1, 1}});
  } else if (scale != nullptr && (scale->dimensions.rank == 1 || !method.block)) {
    parts.share_scales(1, columns);
    parts.require(word, types, {{rows, 1}, {rows}});
  } else {
    const auto block = method.block.value_or(ScaleBlock{rows, columns});
    parts.share_scales(block.rows, block.columns);
    parts.require(word, types, {{divided_up(rows, block.rows), divided_up(columns, block.columns)}});
  }
}

void check_parts(const CompressedQuantization& method, QuantizedParts& parts) {
  for (const std::string_view word : {"input_scale", "input_zero_point", "input_global_scale", "output_scale", "k_scale",
                                      "v_scale"})
    parts.ignore(word);
  using Form = CompressedQuantization::Form;
  using Sharing = CompressedQuantization::Sharing;
  const auto [rows, columns] = std::pair(parts.matrix().rows, parts.matrix().columns);
  const bool packed = method.form == Form::packed;
  if (method.form == Form::small_floating) return check_small_floats(parts);
  if (packed) {
    parts.require("weight_packed", {ElementType::int32}, {{rows, divided_up(columns * method.bits, 32)}});
    parts.require("weight_shape", {ElementType::int64, ElementType::int32}, {{2}});
  } else {
    parts.require("weight", {method.form == Form::whole ? ElementType::int8 : ElementType::float8}, {{rows, columns}});
  }
  std::int64_t down = 1, across = 1;  // scales
  switch (method.sharing) {
    case Sharing::tensor:
      parts.share_scales(rows, columns);
      parts.require("weight_scale", scale_types, {{}, {1}, {1, 1}});
      break;
    case Sharing::row:
      parts.share_scales(1, columns);
      parts.require("weight_scale", scale_types, {{rows, 1}, {rows}});
      down = rows;
      break;
    case Sharing::group:
    case Sharing::block:
      if (method.sharing == Sharing::group) parts.divides("runs", method.block.columns, "columns", columns);
      parts.share_scales(method.block.rows, method.block.columns);
      down = divided_up(rows, method.block.rows);
      across = divided_up(columns, method.block.columns);
      parts.require("weight_scale", scale_types, {{down, across}});
      break;
  }
  if (!method.symmetric && packed && method.sharing != Sharing::tensor)
    parts.require("weight_zero_point", {ElementType::int32}, {{divided_up(down * method.bits, 32), across}});
  else if (!method.symmetric && down * across == 1)
    parts.require("weight_zero_point", {ElementType::int8}, {{}, {1}, {1, 1}});
  else if (!method.symmetric)
    parts.require("weight_zero_point", {ElementType::int8}, {{down, across}, {down * across}});
  else
    parts.ignore("weight_zero_point");
  if (packed && parts.has("weight_g_idx")) parts.require("weight_g_idx", {ElementType::int32}, {{columns}});
}

void check_parts(const GptqQuantization& method, QuantizedParts& parts) {
  const auto [rows, columns] = std::pair(parts.matrix().rows, parts.matrix().columns);
  const std::int64_t group = method.group.value_or(columns), groups = divided_up(columns, group);
  parts.share_scales(1, group);
  parts.require("qweight", {ElementType::int32}, {{divided_up(columns * method.bits, 32), rows}});
  parts.require("qzeros", {ElementType::int32}, {{groups, divided_up(rows * method.bits, 32)}});
  parts.require("scales", scale_types, {{groups, rows}});
  if (method.ordered || parts.has("g_idx")) parts.require("g_idx", {ElementType::int32}, {{columns}});
}

std::int64_t awq_zero_words(std::int64_t columns, std::int64_t group) {
  const std::int64_t unit = group >= 128 ? 1 : group == 64 ? 2 : group == 32 ? 4 : 0;
  return unit == 0 ? 0 : divided_up(divided_up(columns / group, 8), unit) * unit;
}

void check_parts(const AwqQuantization& method, QuantizedParts& parts) {
  const auto [rows, columns] = std::pair(parts.matrix().rows, parts.matrix().columns);
  const std::int64_t group = method.group.value_or(columns), groups = divided_up(columns, group);
  parts.share_scales(1, group);
  parts.divides("runs", group, "columns", columns);
  if (method.layout == AwqQuantization::Layout::by_inputs) {
    parts.divides("words", 8, "rows", rows);
    parts.require("qweight", {ElementType::int32}, {{columns, rows / 8}});
    parts.require("qzeros", {ElementType::int32}, {{groups, rows / 8}});
    parts.require("scales", scale_types, {{groups, rows}});
    return;
  }
  const std::int64_t words = awq_zero_words(columns, group);
  if (words == 0)
    parts.note("qzeros", fmt::format("is of runs of {}, and gemv has runs of 32, of 64, and from 128 on", group));
  parts.divides("words", 8, "columns", columns);
  parts.require("qweight", {ElementType::int32}, {{rows, columns / 8}});
  parts.require("qzeros", {ElementType::int32}, {{rows, words}});
  parts.require("scales", scale_types, {{rows, 8 * words}});
}

}  // namespace muster::spec
