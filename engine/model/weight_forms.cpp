#include "model/weight_forms.hpp"

#include "checkpoint/adapters/adapted_source.hpp"
#include "spec/model/adapters/adapted_modules.hpp"
#include "spec/model/quantized/packed_modules.hpp"
#include "tensor/element_types.hpp"

namespace muster::model {
namespace {

Result<spec::PackedByName> asked_for(const spec::ModelShape& shape, const spec::WeightOptions& options) {
  const auto weights = spec::packed_weights(shape, options.skipped);
  if (!weights) return weights.error();
  spec::PackedByName packed;
  for (const spec::TensorId weight : *weights) packed[shape.path(weight)] = options.packing;
  return packed;
}

// Scales that a file has in 8 bits are known, and held as they are. What cannot be joined as codes is joined as numbers.
spec::PackedByName as_stored(const spec::ModelShape& shape, const checkpoint::TensorSource& source) {
  spec::PackedByName packed;
  for (const checkpoint::TensorEntry& entry : source.tensors())
    if (const auto stored = source.packed(entry.name)) {
      spec::WeightPacking& held = packed[entry.name] = stored->packing;
      held.double_quantized = false;
    }
  spec::leave_out_parted_groups(shape, packed);
  return packed;
}

}  // namespace

Result<void> add_adapter(WeightForms& forms, const spec::ModelShape& shape, const spec::AdapterOptions& options) {
  const auto modules = spec::adapted_modules(shape, options);
  if (!modules) return modules.error();
  const auto saved = spec::saved_parameters(shape, options);
  if (!saved) return saved.error();
  AdapterForms& adapter = forms.adapters.emplace_back();
  for (const spec::AdaptedModule& module : *modules)
    adapter[shape.path(module.weight)] = {module.rank, module.scale, options.weight_decomposed};
  for (const spec::TensorId id : *saved) {
    const std::string name = shape.path(id);
    forms.packed.erase(name);
    forms.narrow.erase(name);
    forms.saved.insert(name);
  }
  return {};
}

Result<WeightForms> forms_of_weights(const spec::ModelShape& shape, const checkpoint::TensorSource& source,
                                     const std::optional<spec::WeightOptions>& options) {
  WeightForms forms;
  forms.packed = as_stored(shape, source);
  if (options && forms.packed.empty()) {
    auto packed = asked_for(shape, *options);
    if (!packed) return packed.error();
    forms.packed = std::move(*packed);
  }
  for (const checkpoint::TensorEntry& entry : source.tensors())
    if (entry.dimensions.rank == 2 && entry.element_type && spec::bytes_per_element(*entry.element_type) == 2)
      forms.narrow[entry.name] = tensor::to_torch(*entry.element_type);
  return forms;
}

AdapterNames adapter_names(const std::string& weight, std::size_t number) {
  const std::string module = weight.substr(0, weight.rfind('.'));
  return {checkpoint::adapted_name(number, spec::lora_a_name(module)),
          checkpoint::adapted_name(number, spec::lora_b_name(module)),
          checkpoint::adapted_name(number, spec::lora_magnitude_name(module))};
}

}  // namespace muster::model
