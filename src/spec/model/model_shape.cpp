#include "spec/model/model_shape.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "spec/model/families.hpp"
#include "spec/model/model_layouts.hpp"

namespace muster::spec {

bool is_norm(TensorRole role) {
  using enum TensorRole;
  return role == attention_norm || role == query_norm || role == key_norm || role == feed_forward_norm ||
         role == final_norm;
}

std::span<const TensorShape> ModelShape::tensors_of(ModuleId id) const {
  const ModuleShape& module = at(id);
  return std::span(tensors).subspan(module.first_tensor, module.tensor_count);
}

std::vector<ModuleId> ModelShape::children(ModuleId id) const {
  std::vector<ModuleId> found;
  for (std::size_t child = number(id) + 1; child < at(id).end; child = modules[child].end)
    found.push_back(ModuleId{child});
  return found;
}

bool ModelShape::is_transposed(TensorId id) const {
  const TensorShape& tensor = at(id);
  return at(tensor.owner).class_name == "Conv1D" && tensor.dimensions.rank == 2;
}

bool ModelShape::is_whole(ModuleId id) const { return std::ranges::count(whole_classes, at(id).class_name) > 0; }

// Measured first, then written from its end.
std::string ModelShape::path(ModuleId id) const {
  std::size_t length = 0;
  for (const ModuleShape* module = &at(id); module->parent; module = &at(*module->parent))
    length += module->name.size() + 1;
  if (length == 0) return {};
  std::string path(length - 1, '.');
  std::size_t end = path.size();
  for (const ModuleShape* module = &at(id); module->parent; module = &at(*module->parent)) {
    module->name.copy(path.data() + (end - module->name.size()), module->name.size());
    end -= std::min(end, module->name.size() + 1);
  }
  return path;
}

std::string ModelShape::path(TensorId id) const {
  const TensorShape& tensor = at(id);
  std::string path = this->path(tensor.owner);
  if (!path.empty()) path += '.';
  return path += tensor.name;
}

std::optional<ModuleId> ModelShape::find_module(std::string_view path) const {
  if (modules.empty()) return std::nullopt;
  std::size_t module = 0;
  while (!path.empty()) {
    const std::string_view name = path.substr(0, path.find('.'));
    const std::size_t end = modules[module].end;
    std::size_t child = module + 1;
    while (child < end && modules[child].name != name) child = modules[child].end;
    if (child >= end) return std::nullopt;
    module = child;
    if (name.size() + 1 == path.size()) return std::nullopt;  // a dot at the end
    path.remove_prefix(std::min(name.size() + 1, path.size()));
  }
  return ModuleId{module};
}

std::optional<TensorId> ModelShape::find(TensorRole role, std::optional<std::int64_t> layer, bool bias) const {
  const auto found = std::ranges::find_if(tensors, [&](const TensorShape& tensor) {
    return tensor.role == role && tensor.layer == layer && tensor.bias == bias;
  });
  if (found == tensors.end()) return std::nullopt;
  return TensorId{static_cast<std::size_t>(found - tensors.begin())};
}

std::int64_t ModelShape::parameter_count() const {
  std::int64_t count = 0;
  for (const TensorShape& tensor : tensors)
    if (tensor.kind == TensorKind::parameter && !tensor.same_as) count += tensor.elements();
  return count;
}

void ShapeBuilder::reserve(std::size_t modules, std::size_t tensors) {
  shape_.modules.reserve(modules);
  shape_.tensors.reserve(tensors);
}

ModuleId ShapeBuilder::open(std::string name, std::string class_name) {
  if (open_.empty() && !shape_.modules.empty()) throw std::logic_error("ShapeBuilder: a second root");
  const ModuleId id{shape_.modules.size()};
  shape_.modules.push_back({.name = std::move(name),
                            .class_name = std::move(class_name),
                            .parent = open_.empty() ? std::nullopt : std::optional(open_.back()),
                            .end = 0,
                            .first_tensor = shape_.tensors.size(),
                            .tensor_count = 0});
  open_.push_back(id);
  return id;
}

ModuleId ShapeBuilder::open_layer(std::string name, std::string class_name) {
  if (open_layer_) throw std::logic_error("ShapeBuilder: a layer within a layer");
  open_layer_ = open(std::move(name), std::move(class_name));
  ++layers_;
  return *open_layer_;
}

void ShapeBuilder::close() {
  if (open_.empty()) throw std::logic_error("ShapeBuilder: nothing to close");
  if (open_layer_ == open_.back()) open_layer_.reset();
  shape_.modules[number(open_.back())].end = shape_.modules.size();
  open_.pop_back();
}

TensorId ShapeBuilder::append(TensorShape tensor) {
  if (open_.empty()) throw std::logic_error("ShapeBuilder: a tensor outside of any module");
  ModuleShape& module = shape_.modules[number(open_.back())];
  if (number(open_.back()) + 1 != shape_.modules.size())
    throw std::logic_error("ShapeBuilder: a tensor of a module that has children already");
  tensor.owner = open_.back();
  tensor.layer = open_layer_ ? std::optional(layers_ - 1) : std::nullopt;
  const TensorId id{shape_.tensors.size()};
  shape_.tensors.push_back(std::move(tensor));
  ++module.tensor_count;
  return id;
}

TensorId ShapeBuilder::add(std::string name, std::initializer_list<std::int64_t> sizes, TensorKind kind,
                           ElementType type) {
  TensorShape tensor;
  tensor.name = std::move(name);
  tensor.type = type;
  tensor.kind = kind;
  if (sizes.size() > tensor.dimensions.sizes.size()) throw std::logic_error("ShapeBuilder: more than four dimensions");
  std::ranges::copy(sizes, tensor.dimensions.sizes.begin());
  tensor.dimensions.rank = sizes.size();
  return append(std::move(tensor));
}

TensorId ShapeBuilder::add_weight(TensorRole role, std::initializer_list<std::int64_t> sizes, ElementType type) {
  const TensorId id = add("weight", sizes, TensorKind::parameter, type);
  shape_.tensors[number(id)].role = role;
  return id;
}

TensorId ShapeBuilder::add_bias(TensorRole role, std::int64_t size, ElementType type) {
  const TensorId id = add("bias", {size}, TensorKind::parameter, type);
  shape_.tensors[number(id)].role = role;
  shape_.tensors[number(id)].bias = true;
  return id;
}

TensorId ShapeBuilder::tie(std::string name, TensorId same_as, TensorRole role) {
  TensorShape tensor = shape_.at(same_as);
  tensor.name = std::move(name);
  tensor.role = role;
  tensor.same_as = tensor.same_as.value_or(same_as);
  return append(std::move(tensor));
}

ModelShape ShapeBuilder::finish(std::vector<std::string> whole_classes) {
  if (!open_.empty()) throw std::logic_error("ShapeBuilder: a module is still open");
  shape_.whole_classes = std::move(whole_classes);
  return std::exchange(shape_, {});
}

void add_heads(ShapeBuilder& builder, const ModelConfig& config, ElementType dtype, TensorId embedding,
               std::string_view score_name) {
  if (config.predicts_tokens()) {
    builder.open("lm_head", "Linear");
    if (config.tied)
      builder.tie("weight", embedding, TensorRole::head);
    else
      builder.add_weight(TensorRole::head, {config.vocabulary, config.hidden}, dtype);
    builder.close();
  }
  if (!config.score) return;
  const auto& [use, outputs] = *config.score;
  if (use == ScoreUse::values) builder.open("v_head", "ValueHead");
  if (use == ScoreUse::tokens) {
    builder.open("dropout", "Dropout");
    builder.close();
  }
  builder.open(use == ScoreUse::values ? "summary" : std::string(score_name), "Linear");
  builder.add_weight(TensorRole::score, {outputs, config.hidden}, dtype);
  if (config.score->has_bias()) builder.add_bias(TensorRole::score, outputs, dtype);
  builder.close();
  if (use == ScoreUse::values) builder.close();
}

ModelShape build_shape(const ModelConfig& config, ElementType dtype) {
  return row_of(config.family).layout == ModelLayout::gpt2 ? build_gpt2_shape(config, dtype)
                                                           : build_llama_shape(config, dtype);
}

}  // namespace muster::spec
