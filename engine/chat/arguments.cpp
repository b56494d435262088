#include "chat/arguments.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "chat/attributes.hpp"
#include "chat/letters.hpp"
#include "chat/literals.hpp"

namespace muster::chat {

bool is_given(const Given& given, std::size_t parameter) {
  return given.has(parameter) && !given.at(parameter)->is_none();
}

Integer integer_at(Evaluation& evaluation, const Given& given, std::size_t parameter, Integer otherwise) {
  if (!given.has(parameter)) return otherwise;
  Integer integer = 0;
  if (!to_integer(*given.at(parameter), integer))
    evaluation.fail(given.at(parameter)->undefined()
                        ? reason_of(*given.at(parameter))
                        : fmt::format("an argument that is to be an integer is {}", type_name(*given.at(parameter))));
  return integer;
}

std::string text_at(Evaluation& evaluation, const Given& given, std::size_t parameter, std::string_view otherwise) {
  if (!given.has(parameter)) return std::string(otherwise);
  const Value& value = *given.at(parameter);
  if (value.text()) return *value.text();
  evaluation.fail(value.undefined() ? reason_of(value)
                                    : fmt::format("an argument that is to be text is {}", type_name(value)));
  return "";
}

bool truth_at(const Given& given, std::size_t parameter, bool otherwise) {
  return given.has(parameter) ? is_true(*given.at(parameter)) : otherwise;
}

Value without_case(const Value& value) { return value.text() ? Value(lower(*value.text())) : value; }

AttributePath::AttributePath(const Value* attribute) {
  if (attribute == nullptr || attribute->is_none()) return;
  if (attribute->text() == nullptr) {
    steps_.push_back(*attribute);
    return;
  }
  for (const std::string& part : split(*attribute->text(), '.')) {
    Integer index = 0;
    const bool number = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    steps_.push_back(number && parse_integer(part, 10, index) ? Value(index) : Value(part));
  }
}

Value AttributePath::follow(Evaluation& evaluation, Value value, const Value* otherwise) const {
  for (const Value& step : steps_) {
    value = evaluation.item(value, step);
    if (otherwise && !otherwise->is_none() && value.is_undefined()) value = *otherwise;
  }
  return value;
}

}  // namespace muster::chat
