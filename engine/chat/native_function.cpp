#include "chat/native_function.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "chat/evaluation.hpp"

namespace muster::chat {
namespace {

std::size_t parameter_count(const NativeFunction& function) {
  return static_cast<std::size_t>(std::ranges::find(function.parameters, std::string_view{}) -
                                  function.parameters.begin());
}

void add_names(std::vector<std::string>& names, NativeTable table) {
  for (const NativeFunction& function : table) names.emplace_back(function.name);
}

}  // namespace

const NativeFunction* find(NativeTable table, std::string_view name) {
  const auto found = std::ranges::find(table, name, &NativeFunction::name);
  return found == table.end() ? nullptr : &*found;
}

const NativeFunction* find_filter(std::string_view name) {
  for (const NativeTable table : {text_filters(), sequence_filters(), number_filters()})
    if (const NativeFunction* found = find(table, name)) return found;
  return nullptr;
}

const NativeFunction* find_test(std::string_view name) { return find(tests(), name); }

std::vector<std::string> filter_names() {
  std::vector<std::string> names;
  for (const NativeTable table : {text_filters(), sequence_filters(), number_filters()}) add_names(names, table);
  return names;
}

std::vector<std::string> test_names() {
  std::vector<std::string> names;
  add_names(names, tests());
  return names;
}

bool bind(Evaluation& evaluation, const NativeFunction& function, const Arguments& arguments, Given& given) {
  given.all_ = &arguments;
  if (function.variadic) return true;
  const std::size_t count = parameter_count(function);
  if (arguments.positional.size() > count) {
    evaluation.fail(
        fmt::format("'{}' takes at most {} arguments, not {}", function.name, count, arguments.positional.size()));
    return false;
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) given.places_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto place = std::ranges::find(function.parameters, name);
    const auto index = static_cast<std::size_t>(place - function.parameters.begin());
    if (index >= count || given.places_[index] != nullptr) {
      evaluation.fail(fmt::format("'{}' {} the argument '{}'", function.name,
                                  index >= count ? "has no use for" : "is given twice", name));
      return false;
    }
    given.places_[index] = &value;
  }
  for (std::size_t i = 0; i < function.required; ++i)
    if (given.places_[i] == nullptr) {
      evaluation.fail(fmt::format("'{}' needs the argument '{}'", function.name, function.parameters[i]));
      return false;
    }
  return true;
}

Value invoke(Evaluation& evaluation, const NativeFunction& function, const Value& subject, const Arguments& arguments) {
  Given given;
  if (evaluation.failed() || !evaluation.charge(1) || !bind(evaluation, function, arguments, given)) return {};
  Value result;
  if (evaluation.descend()) result = function.run(evaluation, subject, given);
  evaluation.ascend();
  return result;
}

}  // namespace muster::chat
