#include "model/weight_forms.hpp"

#include "spec/model/adapted_modules.hpp"

namespace muster::model {

Result<std::map<std::string, AdapterForm, std::less<>>> adapter_forms(const spec::ModelShape& shape,
                                                                      const spec::AdapterOptions& options) {
  const auto modules = spec::adapted_modules(shape, options);
  if (!modules) return modules.error();
  std::map<std::string, AdapterForm, std::less<>> forms;
  for (const spec::AdaptedModule& module : *modules)
    forms[shape.path(module.weight)] = {module.rank, module.scale};
  return forms;
}

AdapterNames adapter_names(const std::string& weight) {
  const std::string module = weight.substr(0, weight.rfind('.'));
  return {spec::lora_a_name(module), spec::lora_b_name(module)};
}

}  // namespace muster::model
