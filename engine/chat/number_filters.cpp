#include <fmt/format.h>

#include <cmath>

#include "chat/arguments.hpp"
#include "chat/attributes.hpp"
#include "chat/literals.hpp"
#include "chat/python_text.hpp"

namespace muster::chat {
namespace {

constexpr double largest = 1e38;  // that an Integer holds for certain

Value to_integer_value(Evaluation& evaluation, const Value& subject, const Given& given) {
  if (subject.undefined()) return evaluation.fail(reason_of(subject));
  const Value otherwise = given.has(0) ? *given.at(0) : Value(Integer{0});
  const Integer base = integer_at(evaluation, given, 1, 10);
  if (base < 2 || base > 36) return evaluation.fail("'int' with a base beyond 2 to 36");
  Integer integer = 0;
  double number = 0;
  if (to_integer(subject, integer)) return integer;
  if (subject.text() && parse_integer(*subject.text(), static_cast<int>(base), integer)) return integer;
  const bool is_number = subject.text() ? parse_float(*subject.text(), number) : to_number(subject, number);
  if (!is_number || !std::isfinite(number)) return otherwise;
  if (std::fabs(number) >= largest) return evaluation.fail("'int' of a number of more than 127 bits");
  return static_cast<Integer>(number);
}

Value to_float_value(Evaluation& evaluation, const Value& subject, const Given& given) {
  if (subject.undefined()) return evaluation.fail(reason_of(subject));
  double number = 0;
  if (subject.text() ? parse_float(*subject.text(), number) : to_number(subject, number)) return number;
  return given.has(0) ? *given.at(0) : Value(0.0);
}

Value absolute(Evaluation& evaluation, const Value& subject, const Given&) {
  Integer integer = 0;
  if (to_integer(subject, integer)) return integer < 0 ? -integer : integer;
  if (subject.number()) return std::fabs(*subject.number());
  return evaluation.fail(subject.undefined() ? reason_of(subject) : fmt::format("'abs' of {}", type_name(subject)));
}

// round(): to the nearest, exactly as the decimal digits of the float have it.
double rounded(double number, int places) {
  if (!std::isfinite(number)) return number;
  if (places >= 0) {
    double result = 0;
    parse_float(fmt::format("{:.{}f}", number, std::min(places, 320)), result);
    return result;
  }
  const double unit = std::pow(10.0, -places);
  const double result = std::nearbyint(number / unit) * unit;
  return result;
}

Integer rounded_integer(Integer integer, Integer places) {
  Integer unit = 1;
  for (Integer i = 0; i > places; --i)
    if (__builtin_mul_overflow(unit, Integer{10}, &unit)) return 0;
  const Integer rest = ((integer % unit) + unit) % unit;
  const Integer low = integer - rest;
  if (rest * 2 < unit) return low;
  if (rest * 2 > unit) return low + unit;
  return (low / unit) % 2 == 0 ? low : low + unit;
}

Value round(Evaluation& evaluation, const Value& subject, const Given& given) {
  const Integer places = integer_at(evaluation, given, 0, 0);
  const std::string method = text_at(evaluation, given, 1, "common");
  double number = 0;
  if (subject.undefined() || !to_number(subject, number))
    return evaluation.fail(subject.undefined() ? reason_of(subject) : fmt::format("'round' of {}", type_name(subject)));
  if (places < -300 || places > 300) return evaluation.fail("'round' to that many places");
  Integer integer = 0;
  const bool whole = to_integer(subject, integer);
  if (method == "common" && whole) return places >= 0 ? integer : rounded_integer(integer, places);
  if (method == "common") return rounded(number, static_cast<int>(places));
  if (method != "ceil" && method != "floor") return evaluation.fail("'round' goes common, ceil or floor");
  const double unit = std::pow(10.0, static_cast<double>(places));
  return (method == "ceil" ? std::ceil(number * unit) : std::floor(number * unit)) / unit;
}

constexpr NativeFunction number_filter_table[] = {
    {"int", to_integer_value, {"default", "base"}},
    {"float", to_float_value, {"default"}},
    {"abs", absolute},
    {"round", round, {"precision", "method"}},
};

}  // namespace

NativeTable number_filters() { return number_filter_table; }

}  // namespace muster::chat
