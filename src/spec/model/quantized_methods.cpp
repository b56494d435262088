#include "spec/model/quantized_methods.hpp"

#include <fmt/format.h>

#include <array>

namespace muster::spec {
namespace {

constexpr std::array<std::string_view, 4> bitsandbytes_parts{"weight.absmax", "weight.quant_state.bitsandbytes__nf4",
                                                             "weight.quant_state.bitsandbytes__fp4", "SCB"};

void check_eight_bits(QuantizedParts& parts) {
  const auto [rows, columns] = std::pair(parts.matrix().rows, parts.matrix().columns);
  parts.require("weight", {ElementType::int8}, {{rows, columns}});
  parts.require("SCB", {ElementType::float32}, {{rows}});
  if (parts.has("weight_format")) parts.require("weight_format", {ElementType::uint8}, {{}, {1}});
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
  static_cast<void>(parts.require(state_part(!nf4 && parts.has(state_part(PackedCode::fp4)) ? PackedCode::fp4 : PackedCode::nf4)));
}

}  // namespace

std::span<const std::string_view> parts_of_codes(const CheckpointQuantization&) { return bitsandbytes_parts; }

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

}  // namespace muster::spec
