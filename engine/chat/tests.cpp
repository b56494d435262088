// What follows "is".
#include <fmt/format.h>

#include "chat/arguments.hpp"
#include "chat/attributes.hpp"
#include "chat/code_points.hpp"
#include "chat/letters.hpp"

namespace muster::chat {
namespace {

// A test that looks at the value alone.
template <bool (*holds)(const Value&)>
Value test(Evaluation&, const Value& subject, const Given&) {
  return holds(subject);
}

bool is_defined(const Value& value) { return !value.is_undefined(); }
bool is_undefined(const Value& value) { return value.is_undefined(); }
bool is_none(const Value& value) { return value.is_none(); }
bool is_text(const Value& value) { return value.is_text(); }
bool is_mapping(const Value& value) { return value.dictionary() != nullptr; }
bool is_integer(const Value& value) { return std::holds_alternative<Integer>(value.storage()); }
bool is_float(const Value& value) { return value.number() != nullptr; }
bool is_boolean(const Value& value) { return value.truth() != nullptr; }
bool is_just_true(const Value& value) { return value.truth() && *value.truth(); }
bool is_just_false(const Value& value) { return value.truth() && !*value.truth(); }
bool is_markup(const Value& value) { return value.is_markup(); }
bool is_number_value(const Value& value) {
  double number = 0;
  return to_number(value, number);
}
bool is_iterable(const Value& value) {
  return value.is_undefined() || value.is_text() || value.sequence() || value.dictionary();
}
bool is_sequence(const Value& value) {
  if (const Sequence* sequence = value.sequence()) return sequence->is_indexed();
  return value.is_undefined() || value.is_text() || value.dictionary();
}
bool is_callable(const Value& value) {
  return value.is_undefined() || (value.object() != nullptr && value.object()->is_callable());
}

// The operators as tests.
template <BinaryOperator operation, int rest>
Value remainder_is(Evaluation& evaluation, const Value& subject, const Given&) {
  return is_equal(evaluation.binary(operation, subject, Value(Integer{2})), Value(Integer{rest}));
}
Value divisible(Evaluation& evaluation, const Value& subject, const Given& given) {
  return is_equal(evaluation.binary(BinaryOperator::modulo, subject, *given.at(0)), Value(Integer{0}));
}
Value equal(Evaluation& evaluation, const Value& subject, const Given& given) {
  return evaluation.equal(subject, *given.at(0));
}
Value unequal(Evaluation& evaluation, const Value& subject, const Given& given) {
  return !evaluation.equal(subject, *given.at(0));
}
Value less(Evaluation& evaluation, const Value& subject, const Given& given) {
  return evaluation.less(subject, *given.at(0));
}
Value less_or_equal(Evaluation& evaluation, const Value& subject, const Given& given) {
  return !evaluation.less(*given.at(0), subject);
}
Value greater(Evaluation& evaluation, const Value& subject, const Given& given) {
  return evaluation.less(*given.at(0), subject);
}
Value greater_or_equal(Evaluation& evaluation, const Value& subject, const Given& given) {
  return !evaluation.less(subject, *given.at(0));
}
Value in(Evaluation& evaluation, const Value& subject, const Given& given) {
  return evaluation.contains(*given.at(0), subject);
}
Value same_as(Evaluation&, const Value& subject, const Given& given) {
  const Value& other = *given.at(0);
  if (subject.truth() || other.truth()) return subject.truth() && other.truth() && *subject.truth() == *other.truth();
  if (subject.sequence() || subject.dictionary())
    return subject.sequence() == other.sequence() && subject.dictionary() == other.dictionary();
  return subject.storage().index() == other.storage().index() && is_equal(subject, other);
}

// Text all of one case, with at least one letter that has a case.
template <bool (*wanted)(char32_t), bool (*unwanted)(char32_t)>
Value is_all_case(Evaluation& evaluation, const Value& subject, const Given&) {
  const std::string text = evaluation.to_text(subject);
  bool any = false;
  for (const std::string_view character : code_points(text)) {
    const char32_t value = first_code_point(character).value;
    if (unwanted(value)) return false;
    any |= wanted(value);
  }
  return any;
}

Value is_filter(Evaluation&, const Value& subject, const Given&) {
  return subject.text() != nullptr && find_filter(*subject.text()) != nullptr;
}
Value is_test(Evaluation&, const Value& subject, const Given&) {
  return subject.text() != nullptr && find_test(*subject.text()) != nullptr;
}

constexpr NativeFunction test_table[] = {
    {"defined", test<is_defined>},
    {"undefined", test<is_undefined>},
    {"none", test<is_none>},
    {"string", test<is_text>},
    {"mapping", test<is_mapping>},
    {"iterable", test<is_iterable>},
    {"sequence", test<is_sequence>},
    {"number", test<is_number_value>},
    {"integer", test<is_integer>},
    {"float", test<is_float>},
    {"boolean", test<is_boolean>},
    {"true", test<is_just_true>},
    {"false", test<is_just_false>},
    {"callable", test<is_callable>},
    {"escaped", test<is_markup>},
    {"odd", remainder_is<BinaryOperator::modulo, 1>},
    {"even", remainder_is<BinaryOperator::modulo, 0>},
    {"divisibleby", divisible, {"num"}, 1},
    {"equalto", equal, {"other"}, 1},
    {"eq", equal, {"other"}, 1},
    {"==", equal, {"other"}, 1},
    {"ne", unequal, {"other"}, 1},
    {"!=", unequal, {"other"}, 1},
    {"lt", less, {"other"}, 1},
    {"lessthan", less, {"other"}, 1},
    {"<", less, {"other"}, 1},
    {"le", less_or_equal, {"other"}, 1},
    {"<=", less_or_equal, {"other"}, 1},
    {"gt", greater, {"other"}, 1},
    {"greaterthan", greater, {"other"}, 1},
    {">", greater, {"other"}, 1},
    {"ge", greater_or_equal, {"other"}, 1},
    {">=", greater_or_equal, {"other"}, 1},
    {"in", in, {"seq"}, 1},
    {"sameas", same_as, {"other"}, 1},
    {"lower", is_all_case<is_lower, is_upper>},
    {"upper", is_all_case<is_upper, is_lower>},
    {"filter", is_filter},
    {"test", is_test},
};

}  // namespace

NativeTable tests() { return test_table; }

}  // namespace muster::chat
