#include "plan/compat_sizes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

namespace muster::plan {
namespace {

using spec::ElementType;
using spec::ModelShape;
using spec::ModuleId;
using spec::TensorId;
using spec::TensorShape;

Result<Eighths> element_eighths(double bytes, std::string_view where) {
  const double eighths = bytes * 8;
  if (!(eighths >= 1 && eighths <= 128) || eighths != std::floor(eighths))
    return Error{Error::Kind::bad_input, fmt::format("{}: {} bytes per element is not the size of a type", where, bytes),
                 "4 (float32), 2 (bfloat16), 1 (int8), 0.5 (int4)"};
  return static_cast<Eighths>(eighths);
}

Eighths own_eighths(ElementType type, CompatRules rules) {
  if (type == ElementType::boolean && rules == CompatRules::accelerate) return 1;
  return 8 * spec::bytes_per_element(type);
}

std::optional<TensorId> find_tensor(const ModelShape& shape, std::string_view path) {
  const std::size_t dot = path.rfind('.');
  const auto module = shape.find_module(dot == std::string_view::npos ? "" : path.substr(0, dot));
  if (!module) return std::nullopt;
  const std::string_view name = dot == std::string_view::npos ? path : path.substr(dot + 1);
  for (std::size_t i = 0; i < shape.at(*module).tensor_count; ++i) {
    const std::size_t tensor = shape.at(*module).first_tensor + i;
    if (shape.tensors[tensor].name == name) return static_cast<TensorId>(tensor);
  }
  return std::nullopt;
}

// Eighths per element of every tensor.
Result<std::vector<Eighths>> elements_of(const ModelShape& shape, const CompatRequest& request) {
  std::optional<Eighths> asked;
  if (request.element_bytes) {
    const auto eighths = element_eighths(*request.element_bytes, "dtype");
    if (!eighths) return eighths.error();
    asked = *eighths;
  }
  std::vector<Eighths> elements;
  elements.reserve(shape.tensors.size());
  for (const TensorShape& tensor : shape.tensors) {
    const Eighths own = own_eighths(tensor.type, request.rules);
    elements.push_back(asked && is_floating(tensor.type) ? std::min(*asked, own) : own);
  }
  for (const auto& [path, bytes] : request.special_elements) {
    const auto tensor = find_tensor(shape, path);
    if (!tensor)
      return Error{Error::Kind::bad_input, fmt::format("the model has no tensor \"{}\" to give a size to", path),
                   "name a tensor by its whole path, as in model.embed_tokens.weight"};
    const auto eighths = element_eighths(bytes, path);
    if (!eighths) return eighths.error();
    elements[number(*tensor)] = *eighths;
  }
  return elements;
}

std::vector<bool> whole_modules(const ModelShape& shape, const std::vector<std::string>& classes) {
  const std::unordered_set<std::string_view> whole(classes.begin(), classes.end());
  std::vector<bool> found(shape.modules.size());
  if (!whole.empty())
    for (std::size_t i = 0; i < found.size(); ++i) found[i] = whole.contains(shape.modules[i].class_name);
  return found;
}

// What each module holds itself is added to its parent's, children before parents.
void add_up(const ModelShape& shape, CompatSizes& sizes) {
  for (std::size_t i = shape.modules.size(); i-- > 1;) {
    const std::size_t parent = number(*shape.modules[i].parent);
    sizes.modules[parent] += sizes.modules[i];
    if (sizes.holds_parameter[i]) sizes.holds_parameter[parent] = true;
    if (sizes.holds_tensor[i]) sizes.holds_tensor[parent] = true;
  }
}

// Sums stay far below what fits 64 bits.
constexpr Eighths most_eighths = Eighths{1} << 61;

Error too_large() {
  return {Error::Kind::bad_input, "the model's tensors take more than 2^58 bytes", "check their dimensions"};
}

std::optional<Error> check_rules(const CompatRequest& request) {
  if (request.rules == CompatRules::accelerate) return std::nullopt;
  if (request.element_bytes)
    return Error{Error::Kind::bad_input, "transformers' rules know no dtype beside that of the tensors",
                 "build the model's shape in that dtype, or name single tensors in special_elements"};
  if (request.fallback_allocation)
    return Error{Error::Kind::bad_input, "transformers' rules know no fallback allocation", "use accelerate's rules"};
  return std::nullopt;
}

}  // namespace

bool counts(const ModelShape& shape, const TensorShape& tensor) {
  for (auto earlier = tensor.same_as; earlier; earlier = shape.at(*earlier).same_as)
    if (is_parameter(shape.at(*earlier)) == is_parameter(tensor)) return false;
  return true;
}

std::vector<TensorId> own_tensors(const ModelShape& shape, ModuleId module, bool parameters) {
  const auto original = [&](TensorId id) {
    while (shape.at(id).same_as) id = *shape.at(id).same_as;
    return id;
  };
  std::vector<TensorId> found;
  const std::size_t first = shape.at(module).first_tensor;
  for (std::size_t i = first; i < first + shape.at(module).tensor_count; ++i) {
    const auto id = static_cast<TensorId>(i);
    if (is_parameter(shape.at(id)) != parameters) continue;
    const bool again = shape.at(id).same_as && std::any_of(found.begin(), found.end(), [&](TensorId other) {
                         return original(other) == original(id);
                       });
    if (!again) found.push_back(id);
  }
  return found;
}

Result<CompatSizes> compat_sizes(const ModelShape& shape, const CompatRequest& request) {
  if (const auto error = check_rules(request)) return *error;
  const auto elements = elements_of(shape, request);
  if (!elements) return elements.error();
  CompatSizes sizes{.modules = std::vector<Eighths>(shape.modules.size()),
                    .tensors = std::vector<Eighths>(shape.tensors.size()),
                    .holds_parameter = std::vector<bool>(shape.modules.size()),
                    .holds_tensor = std::vector<bool>(shape.modules.size()),
                    .is_whole = whole_modules(shape, request.whole_classes)};
  Wide total = 0;
  for (std::size_t i = 0; i < shape.tensors.size(); ++i) {
    const TensorShape& tensor = shape.tensors[i];
    if (tensor.same_as && !counts(shape, tensor)) continue;
    total += Wide{tensor.elements()} * (*elements)[i];
    if (total > most_eighths) return too_large();
    const std::size_t owner = number(tensor.owner);
    sizes.tensors[i] = tensor.elements() * (*elements)[i];
    sizes.modules[owner] += sizes.tensors[i];
    sizes.holds_tensor[owner] = true;
    if (is_parameter(tensor)) sizes.holds_parameter[owner] = true;
  }
  add_up(shape, sizes);
  return sizes;
}

Wide in_sixteenths(const Budget& budget) {
  const double eighths = budget.fraction * 8;
  const auto below = static_cast<int>(std::floor(eighths));
  return Wide{budget.bytes.value} * 16 + 2 * below + (eighths > below ? 1 : 0);
}

}  // namespace muster::plan
