#include "model/weight_forms.hpp"

#include <fmt/format.h>

#include "checkpoint/adapted_source.hpp"
#include "spec/model/adapted_modules.hpp"
#include "spec/model/packed_modules.hpp"
#include "tensor/element_types.hpp"

namespace muster::model {
namespace {

using Packed = std::map<std::string, spec::WeightPacking, std::less<>>;

// Layers that read the same input are joined in one, whose weight has one form.
Result<void> check_joined(const spec::ModelShape& shape, const Packed& packed,
                          std::initializer_list<spec::TensorRole> roles, std::int64_t layer) {
  std::string in_codes, as_it_is;
  for (const spec::TensorRole role : roles) {
    const auto weight = shape.find(role, layer);
    if (!weight) continue;
    const std::string name = shape.path(*weight);
    (packed.contains(name) ? in_codes : as_it_is) = name.substr(0, name.rfind('.'));
  }
  if (in_codes.empty() || as_it_is.empty()) return {};
  return bad_input(fmt::format("model.llm_int8_skip_modules leaves {} as it is, and not {}, which is read with it", as_it_is,
                               in_codes),
                   "skip q_proj, k_proj and v_proj together, and gate_proj with up_proj");
}

}  // namespace

Result<AdapterForms> adapter_forms(const spec::ModelShape& shape, const spec::AdapterOptions& options) {
  const auto modules = spec::adapted_modules(shape, options);
  if (!modules) return modules.error();
  AdapterForms forms;
  for (const spec::AdaptedModule& module : *modules)
    forms[shape.path(module.weight)] = {module.rank, module.scale};
  return forms;
}

Result<Packed> packed_forms(const spec::ModelShape& shape, const spec::WeightOptions& options) {
  const auto weights = spec::packed_weights(shape, options.skipped);
  if (!weights) return weights.error();
  Packed forms;
  for (const spec::TensorId weight : *weights) forms[shape.path(weight)] = options.packing;
  using enum spec::TensorRole;
  for (const spec::TensorShape& tensor : shape.tensors) {
    if (!tensor.layer) continue;
    Result<void> checked;
    if (tensor.role == query) checked = check_joined(shape, forms, {query, key, value}, *tensor.layer);
    if (tensor.role == gate) checked = check_joined(shape, forms, {gate, up}, *tensor.layer);
    if (!checked) return checked.error();
  }
  return forms;
}

std::map<std::string, at::ScalarType, std::less<>> narrow_forms(const checkpoint::TensorSource& source) {
  std::map<std::string, at::ScalarType, std::less<>> forms;
  for (const checkpoint::TensorEntry& entry : source.tensors())
    if (entry.dimensions.rank == 2 && entry.element_type && spec::bytes_per_element(*entry.element_type) == 2)
      forms[entry.name] = tensor::to_torch(*entry.element_type);
  return forms;
}

AdapterNames adapter_names(const std::string& weight, std::size_t number) {
  const std::string module = weight.substr(0, weight.rfind('.'));
  return {checkpoint::adapted_name(number, spec::lora_a_name(module)),
          checkpoint::adapted_name(number, spec::lora_b_name(module))};
}

}  // namespace muster::model
