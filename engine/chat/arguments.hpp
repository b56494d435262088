// Arguments of filters, methods and functions as the kinds they take.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/evaluation.hpp"
#include "chat/native_function.hpp"

namespace muster::chat {

// A value as text, a text that is marked safe staying so.
inline Value soft_text(Evaluation& evaluation, const Value& value) {
  return value.is_text() ? value : Value(evaluation.to_text(value));
}

// An integer, `otherwise` when it is left out; a failure for anything else.
Integer integer_at(Evaluation& evaluation, const Given& given, std::size_t parameter, Integer otherwise);
// Text; a failure for anything else.
std::string text_at(Evaluation& evaluation, const Given& given, std::size_t parameter, std::string_view otherwise);
bool truth_at(const Given& given, std::size_t parameter, bool otherwise);
// Whether the argument is there and not none.
bool is_given(const Given& given, std::size_t parameter);

// Value without case, where it is text: what sorting and comparing go by.
Value without_case(const Value& value);

// "a.b.0" followed from a value: what the attribute= of filters names.
class AttributePath {
 public:
  explicit AttributePath(const Value* attribute);  // absent or none: the value itself
  Value follow(Evaluation& evaluation, Value value, const Value* otherwise = nullptr) const;

 private:
  std::vector<Value> steps_;
};

}  // namespace muster::chat
