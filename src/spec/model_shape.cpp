#include "spec/model_shape.hpp"

#include <algorithm>
#include <utility>

namespace muster::spec {

std::span<const TensorShape> ModelShape::tensors_of(ModuleId id) const {
  const ModuleShape& module = at(id);
  return std::span(tensors).subspan(module.first_tensor, module.tensor_count);
}

std::vector<ModuleId> ModelShape::children(ModuleId id) const {
  std::vector<ModuleId> found;
  for (std::size_t child = number(id) + 1; child < at(id).end; child = modules[child].end)
    found.push_back(static_cast<ModuleId>(child));
  return found;
}

bool ModelShape::is_whole(ModuleId id) const {
  return std::find(whole_classes.begin(), whole_classes.end(), at(id).class_name) != whole_classes.end();
}

std::string ModelShape::path(ModuleId id) const {
  const ModuleShape& module = at(id);
  if (!module.parent) return "";
  std::string above = path(*module.parent);
  return above.empty() ? module.name : above + '.' + module.name;
}

std::string ModelShape::path(TensorId id) const {
  const std::string above = path(at(id).owner);
  return above.empty() ? at(id).name : above + '.' + at(id).name;
}

std::optional<ModuleId> ModelShape::find_module(std::string_view path) const {
  std::size_t module = 0;
  while (!path.empty()) {
    const std::string_view part = path.substr(0, path.find('.'));
    std::size_t child = module + 1;
    while (child < modules[module].end && modules[child].name != part) child = modules[child].end;
    if (child >= modules[module].end) return std::nullopt;
    module = child;
    path.remove_prefix(std::min(path.size(), part.size() + 1));
  }
  return static_cast<ModuleId>(module);
}

std::int64_t ModelShape::parameter_count() const {
  std::int64_t count = 0;
  for (const TensorShape& tensor : tensors)
    if (tensor.kind == TensorKind::parameter && !tensor.same_as) count += tensor.elements();
  return count;
}

ModuleId ShapeBuilder::open(std::string name, std::string class_name) {
  const auto id = static_cast<ModuleId>(shape_.modules.size());
  ModuleShape module{.name = std::move(name), .class_name = std::move(class_name)};
  if (!open_.empty()) module.parent = open_.back();
  module.first_tensor = shape_.tensors.size();
  shape_.modules.push_back(std::move(module));
  open_.push_back(id);
  return id;
}

void ShapeBuilder::close() {
  shape_.modules[number(open_.back())].end = shape_.modules.size();
  open_.pop_back();
}

TensorId ShapeBuilder::add(std::string name, std::initializer_list<std::int64_t> sizes, TensorKind kind,
                           ElementType type) {
  TensorShape tensor{.name = std::move(name), .type = type, .kind = kind, .owner = open_.back()};
  for (const std::int64_t size : sizes) tensor.dimensions.sizes.at(tensor.dimensions.rank++) = size;
  ModuleShape& module = shape_.modules[number(open_.back())];
  if (module.tensor_count++ == 0) module.first_tensor = shape_.tensors.size();
  shape_.tensors.push_back(std::move(tensor));
  return static_cast<TensorId>(shape_.tensors.size() - 1);
}

TensorId ShapeBuilder::tie(std::string name, TensorId same_as) {
  TensorShape tensor = shape_.at(same_as);
  tensor.name = std::move(name);
  tensor.owner = open_.back();
  tensor.same_as = same_as;
  ModuleShape& module = shape_.modules[number(open_.back())];
  if (module.tensor_count++ == 0) module.first_tensor = shape_.tensors.size();
  shape_.tensors.push_back(std::move(tensor));
  return static_cast<TensorId>(shape_.tensors.size() - 1);
}

ModelShape ShapeBuilder::finish(std::vector<std::string> whole_classes) {
  shape_.whole_classes = std::move(whole_classes);
  return std::exchange(shape_, {});
}

}  // namespace muster::spec
