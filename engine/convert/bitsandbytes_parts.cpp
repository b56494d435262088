#include "convert/bitsandbytes_parts.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/coded/scale_rounding.hpp"
#include "spec/model/quantized/quantized_methods.hpp"

namespace muster::convert {
namespace {

using checkpoint::TensorDeclaration;
using spec::ElementType;

// More than a number of JSON takes.
constexpr std::size_t longest_offset = 32;

nlohmann::ordered_json state_without_offset(const CodedWeight& weight) {
  nlohmann::ordered_json state{{"quant_type", weight.packing.code == spec::PackedCode::nf4 ? "nf4" : "fp4"},
                               {"blocksize", weight.packing.run},
                               {"dtype", spec::name(weight.coded_from)},
                               {"shape", {weight.rows, weight.columns}}};
  if (weight.packing.double_quantized) {
    state["nested_blocksize"] = kernels::scales_a_step;
    state["nested_dtype"] = "float32";
  }
  return state;
}

std::size_t state_length(const CodedWeight& weight) {
  nlohmann::ordered_json state = state_without_offset(weight);
  if (weight.packing.double_quantized) state["nested_offset"] = "";
  return state.dump().size() + longest_offset;
}

}  // namespace

std::int64_t CodedWeight::runs() const {
  return packing.bits() == 8 ? rows : (elements() + packing.run - 1) / packing.run;
}

std::string CodedWeight::part(std::string_view word) const {
  return name.substr(0, name.size() - std::string_view("weight").size()).append(word);
}

std::string state_name(const CodedWeight& weight) { return weight.part(spec::state_part(weight.packing.code)); }

std::string state_text(const CodedWeight& weight, float offset) {
  nlohmann::ordered_json state = state_without_offset(weight);
  if (weight.packing.double_quantized) state["nested_offset"] = static_cast<double>(offset);
  std::string text = state.dump();
  text.resize(std::max(text.size(), state_length(weight)), ' ');
  return text;
}

std::vector<TensorDeclaration> parts_of(const CodedWeight& weight) {
  if (weight.packing.bits() == 8)
    return {{weight.part("weight"), ElementType::int8, {{weight.rows, weight.columns}, 2}},
            {weight.part("SCB"), ElementType::float32, {{weight.rows}, 1}},
            {weight.part("weight_format"), ElementType::uint8, {}}};
  const bool nested = weight.packing.double_quantized;
  std::vector<TensorDeclaration> parts{
      {weight.part("weight"), ElementType::uint8, {{(weight.elements() + 1) / 2, 1}, 2}},
      {weight.part("weight.absmax"), nested ? ElementType::uint8 : ElementType::float32, {{weight.runs()}, 1}}};
  if (nested) {
    const auto steps = (weight.runs() + static_cast<std::int64_t>(kernels::scales_a_step) - 1) /
                       static_cast<std::int64_t>(kernels::scales_a_step);
    parts.push_back({weight.part("weight.nested_absmax"), ElementType::float32, {{steps}, 1}});
    parts.push_back({weight.part("weight.nested_quant_map"), ElementType::float32, {{256}, 1}});
  }
  parts.push_back({weight.part("weight.quant_map"), ElementType::float32, {{16}, 1}});
  parts.push_back(
      {state_name(weight), ElementType::uint8, {{static_cast<std::int64_t>(state_length(weight))}, 1}});
  return parts;
}

}  // namespace muster::convert
