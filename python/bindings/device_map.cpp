#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <new>

#include "base/text.hpp"
#include "bindings.hpp"
#include "errors.hpp"
#include "plan/compat_layers.hpp"
#include "plan/compat_map.hpp"
#include "plan/memory_model.hpp"
#include "host/host_memory.hpp"
#include "spec/model/model_source.hpp"
#include "spec/model/quantized/packed_modules.hpp"

namespace muster::python {
namespace {

using plan::Budget;
using plan::CompatRequest;
using spec::ModelShape;

// name, sizes, type, whether it is a parameter, which earlier tensor it is
using TensorEntry = std::tuple<std::string, std::vector<std::int64_t>, std::string, bool, std::optional<std::size_t>>;
// name, class, parent, tensors
using ModuleEntry = std::tuple<std::string, std::string, std::optional<std::size_t>, std::vector<TensorEntry>>;
// place, bytes, fraction of one more
using BudgetEntry = std::tuple<std::string, std::int64_t, double>;

spec::ElementType element_type(const std::string& word) {
  for (int i = 0; i <= static_cast<int>(spec::ElementType::boolean); ++i)
    if (const auto type = static_cast<spec::ElementType>(i); name(type) == word) return type;
  throw std::invalid_argument("no type is called " + word);
}

// More than four dimensions: the last ones become one: only their product counts.
spec::Dimensions dimensions_of(const std::vector<std::int64_t>& sizes, const std::string& tensor) {
  spec::Dimensions dimensions;
  std::int64_t elements = 1;
  for (const std::int64_t size : sizes) {
    if (size < 0 || __builtin_mul_overflow(elements, std::max<std::int64_t>(size, 1), &elements))
      throw std::invalid_argument("tensor " + tensor + " has impossible sizes");
    if (dimensions.rank < dimensions.sizes.size())
      dimensions.sizes[dimensions.rank++] = size;
    else
      dimensions.sizes.back() *= size;
  }
  return dimensions;
}

spec::TensorShape tensor_shape(const TensorEntry& entry, spec::ModuleId owner, std::size_t earlier) {
  const auto& [name, sizes, type, is_parameter, same_as] = entry;
  if (same_as && *same_as >= earlier) throw std::invalid_argument("tensor " + name + " is tied to a later one");
  spec::TensorShape tensor{.name = name};
  tensor.dimensions = dimensions_of(sizes, name);
  tensor.type = element_type(type);
  tensor.kind = is_parameter ? spec::TensorKind::parameter : spec::TensorKind::buffer;
  tensor.owner = owner;
  if (same_as) tensor.same_as = static_cast<spec::TensorId>(*same_as);
  return tensor;
}

// Modules in the order of definition, depth first.
ModelShape shape_of(const std::vector<ModuleEntry>& modules) {
  ModelShape shape;
  for (const auto& [name, class_name, parent, tensors] : modules) {
    const auto id = static_cast<spec::ModuleId>(shape.modules.size());
    if (parent ? *parent >= number(id) : number(id) != 0)
      throw std::invalid_argument("module " + name + " comes before its parent");
    spec::ModuleShape module{.name = name, .class_name = class_name};
    if (parent) module.parent = static_cast<spec::ModuleId>(*parent);
    module.first_tensor = shape.tensors.size();
    module.tensor_count = tensors.size();
    for (const TensorEntry& tensor : tensors) shape.tensors.push_back(tensor_shape(tensor, id, shape.tensors.size()));
    shape.modules.push_back(std::move(module));
  }
  if (shape.modules.empty()) throw std::invalid_argument("a model has at least one module");
  for (std::size_t i = shape.modules.size(); i-- > 0;) {
    spec::ModuleShape& module = shape.modules[i];
    module.end = std::max(module.end, i + 1);
    if (!module.parent) continue;
    spec::ModuleShape& parent = shape.modules[number(*module.parent)];
    parent.end = std::max(parent.end, module.end);
  }
  return shape;
}

ModelShape read_shape(const std::string& model, const std::optional<std::string>& type) {
  const auto dtype = type ? std::optional(element_type(*type)) : std::nullopt;
  return std::move(value_or_raise(spec::read_model(model, spec::model_search_from_environment(), dtype)).shape);
}

std::vector<Budget> budgets_of(const std::vector<BudgetEntry>& entries) {
  std::vector<Budget> budgets;
  for (const auto& [word, bytes, fraction] : entries) {
    budgets.push_back({plan::on_cpu(), {bytes}, fraction});
    if (word == "disk")
      budgets.back().place = plan::on_disk();
    else if (const auto gpu = parse_number<int>(word))
      budgets.back().place = plan::on_gpu(*gpu);
  }
  return budgets;
}

CompatRequest request_of(std::optional<double> element_bytes, std::map<std::string, double> special_elements,
                         std::vector<std::string> whole_classes) {
  CompatRequest request;
  request.element_bytes = element_bytes;
  request.special_elements = std::move(special_elements);
  request.whole_classes = std::move(whole_classes);
  return request;
}

std::vector<BudgetEntry> balanced_budgets(const ModelShape& shape, const CompatRequest& request,
                                          const std::vector<BudgetEntry>& budgets, bool low_zero) {
  std::vector<BudgetEntry> balanced;
  for (const Budget& budget : value_or_raise(plan::balanced_budgets(shape, request, budgets_of(budgets), low_zero)))
    balanced.emplace_back(to_string(budget.place), budget.bytes.value, budget.fraction);
  return balanced;
}

std::vector<std::pair<std::string, std::string>> compat_map(const ModelShape& shape, const CompatRequest& request,
                                                            const std::vector<BudgetEntry>& budgets) {
  const auto ordered = value_or_raise(plan::sequential_budgets(request, budgets_of(budgets)));
  std::vector<std::pair<std::string, std::string>> entries;
  for (const auto& [path, place] : value_or_raise(plan::compat_map(shape, request, ordered)).entries)
    entries.emplace_back(path, to_string(place));
  return entries;
}

// The largest module that is not split, and the whole model, in bytes.
std::pair<double, double> largest_and_total(const ModelShape& shape) {
  const auto sizes = value_or_raise(plan::compat_sizes(shape, request_of({}, {}, shape.whole_classes)));
  return {plan::in_bytes(plan::LargestLayer(shape, sizes).size()), plan::in_bytes(sizes.total())};
}

// Weights of this type, or packed in 8 or 4 bits.
plan::Workload held_as(const ModelShape& shape, const std::string& word) {
  using enum plan::WeightType;
  plan::Workload work;
  for (const plan::WeightType type : {float32, bfloat16, float16}) {
    work.weights = type;
    if (name(type) == word) return work;
  }
  if (word != "int8" && word != "int4") throw std::invalid_argument("no type of weights is called " + word);
  const spec::WeightPacking packing{.code = word == "int8" ? spec::PackedCode::int8 : spec::PackedCode::nf4};
  work.packed = plan::PackedWeights{packing, value_or_raise(spec::packed_weights(shape, {}))};
  return work;
}

// Parameters, their bytes in that type, bytes of buffers.
std::tuple<std::int64_t, std::int64_t, std::int64_t> weigh(const ModelShape& shape, const std::string& type) {
  const plan::ModelWeight weight = plan::weigh(shape, held_as(shape, type));
  return {weight.parameters, weight.parameter_bytes, weight.buffer_bytes};
}

}  // namespace

void bind_device_map(nanobind::module_& module) {
  using nanobind::arg;
  using Released = nanobind::call_guard<nanobind::gil_scoped_release>;
  nanobind::class_<ModelShape>(module, "ModelShape", "The modules and tensors of a model, without their values.")
      .def(
          "__init__",
          [](ModelShape* place, const std::vector<ModuleEntry>& modules, std::vector<std::string> whole_classes) {
            ModelShape shape = shape_of(modules);
            shape.whole_classes = std::move(whole_classes);
            new (place) ModelShape(std::move(shape));
          },
          arg("modules"), arg("whole_classes"))
      .def_ro("whole_classes", &ModelShape::whole_classes, "Classes that are never split.");
  nanobind::class_<CompatRequest>(module, "CompatRequest", "The arguments of accelerate's planner.")
      .def(
          "__init__",
          [](CompatRequest* place, std::optional<double> element_bytes, std::map<std::string, double> special_elements,
             std::vector<std::string> whole_classes) {
            new (place) CompatRequest(request_of(element_bytes, std::move(special_elements), std::move(whole_classes)));
          },
          arg("element_bytes").none(), arg("special_elements"), arg("whole_classes"))
      .def_rw("clean", &CompatRequest::clean)
      .def_rw("fallback_allocation", &CompatRequest::fallback_allocation)
      .def_rw("limits_given", &CompatRequest::limits_given);
  module.def("read_shape", &read_shape, arg("model"), arg("type").none(), Released(),
             "The shape of a model as `muster plan` finds it.");
  module.def("balanced_budgets", &balanced_budgets, arg("shape"), arg("request"), arg("budgets"), arg("low_zero"));
  module.def("compat_map", &compat_map, arg("shape"), arg("request"), arg("budgets"), Released());
  module.def("largest_and_total", &largest_and_total, arg("shape"));
  module.def("free_host_memory", &host::free_host_memory, "Bytes; None: not told.");
  module.def("weigh", &weigh, arg("shape"), arg("type"));
}

}  // namespace muster::python
