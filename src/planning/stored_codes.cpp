#include "planning/stored_codes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "spec/codec.hpp"
#include "spec/model/quantized/packed_modules.hpp"

namespace muster::planning {
namespace {

Error has_other_codes(const spec::ModelDescription& model, const std::string& held, const std::string& wish) {
  return bad_input(fmt::format("{} has its weights in {} already, and {}", model.name, held, wish),
                   "leave the setting out: codes that are there are used as they are; muster model convert writes other "
                   "ones");
}

}  // namespace

plan::PackedWeights stored_codes(const spec::ModelDescription& model) {
  plan::PackedWeights packed{model.codes.begin()->second, {}};
  for (std::size_t i = 0; i < model.shape.tensors.size(); ++i) {
    const auto found = model.codes.find(model.shape.path(spec::TensorId{i}));
    if (found == model.codes.end()) continue;
    packed.tensors.push_back(spec::TensorId{i});
    const spec::WeightPacking& packing = found->second;
    if (packing.bits() > packed.packing.bits()) packed.packing = packing;
    if (packing.bits() < packed.packing.bits()) continue;
    packed.packing.run = std::min(packed.packing.run, packing.run);
    packed.packing.double_quantized &= packing.double_quantized;
  }
  return packed;
}

Result<void> check_stored_codes(const spec::ModelDescription& model, const spec::WeightOptions& asked) {
  for (const auto& [name, packing] : model.codes) {
    if (packing.code == asked.packing.code) continue;
    const bool in_eight = asked.packing.bits() == 8;
    return has_other_codes(model, spec::write(packing.code),
                           fmt::format("model.load_in_{}bit asks for {}{}", in_eight ? 8 : 4,
                                       spec::write(asked.packing.code),
                                       in_eight ? "" : " (model.bnb_4bit_quant_type)"));
  }
  const auto wanted = spec::packable_weights(model.shape, asked.skipped);
  if (!wanted)
    return bad_input(fmt::format("model.llm_int8_skip_modules: {}", wanted.error().what), wanted.error().remedy);
  const auto all = spec::packable_weights(model.shape, {});
  for (const spec::TensorId id : *all)
    if (model.codes.contains(model.shape.path(id)) && std::ranges::find(*wanted, id) == wanted->end())
      return has_other_codes(model, spec::write(model.codes.begin()->second.code),
                             fmt::format("model.llm_int8_skip_modules leaves {} as it is", model.shape.path(id)));
  return {};
}

}  // namespace muster::planning
