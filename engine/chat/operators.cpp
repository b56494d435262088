// Python's operators on values.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "chat/attributes.hpp"
#include "chat/code_points.hpp"
#include "chat/evaluation.hpp"
#include "chat/text_format.hpp"

namespace muster::chat {
namespace {

constexpr std::string_view operator_symbols[] = {"+", "-", "*", "/", "//", "%", "**"};

std::string_view symbol_of(BinaryOperator operation) { return operator_symbols[static_cast<std::size_t>(operation)]; }

bool is_number(const Value& value) {
  double number = 0;
  return to_number(value, number);
}

Integer floor_quotient(Integer left, Integer right) {
  const Integer quotient = left / right;
  return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

// Quotient and remainder of floats, the remainder with the divisor's sign.
std::pair<double, double> floor_division(double left, double right) {
  double remainder = std::fmod(left, right);
  double quotient = (left - remainder) / right;
  if (remainder != 0) {
    if ((right < 0) != (remainder < 0)) {
      remainder += right;
      quotient -= 1;
    }
  } else {
    remainder = std::copysign(0.0, right);
  }
  if (quotient == 0) return {std::copysign(0.0, left / right), remainder};
  const double whole = std::floor(quotient);
  return {quotient - whole > 0.5 ? whole + 1 : whole, remainder};
}

// false: beyond what an integer holds.
bool integer_power(Integer base, Integer exponent, Integer& result) {
  result = 1;
  while (exponent > 0) {
    if (exponent % 2 == 1 && __builtin_mul_overflow(result, base, &result)) return false;
    exponent /= 2;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return false;
  }
  return true;
}

// Both operands are integers. Nothing where the result is a float or an error.
enum class Outcome { done, overflow, zero, as_float };
Outcome integer_operation(BinaryOperator operation, Integer left, Integer right, Integer& result) {
  bool overflow = false;
  switch (operation) {
    case BinaryOperator::add:
      overflow = __builtin_add_overflow(left, right, &result);
      break;
    case BinaryOperator::subtract:
      overflow = __builtin_sub_overflow(left, right, &result);
      break;
    case BinaryOperator::multiply:
      overflow = __builtin_mul_overflow(left, right, &result);
      break;
    case BinaryOperator::divide:
      return right == 0 ? Outcome::zero : Outcome::as_float;
    case BinaryOperator::floor_divide:
    case BinaryOperator::modulo:
      if (right == 0) return Outcome::zero;
      if (right == -1) {  // the smallest integer cannot be negated
        overflow = operation == BinaryOperator::floor_divide && __builtin_sub_overflow(Integer{0}, left, &result);
        if (operation == BinaryOperator::modulo) result = 0;
        break;
      }
      result = floor_quotient(left, right);
      if (operation == BinaryOperator::modulo) result = left - result * right;
      break;
    case BinaryOperator::power:
      if (right < 0) return left == 0 ? Outcome::zero : Outcome::as_float;
      overflow = !integer_power(left, right, result);
      break;
  }
  return overflow ? Outcome::overflow : Outcome::done;
}

Value float_operation(Evaluation& evaluation, BinaryOperator operation, double left, double right) {
  const bool divides = operation == BinaryOperator::divide || operation == BinaryOperator::floor_divide ||
                       operation == BinaryOperator::modulo;
  if ((divides && right == 0) || (operation == BinaryOperator::power && left == 0 && right < 0))
    return evaluation.fail("division by zero");
  switch (operation) {
    case BinaryOperator::add:
      return left + right;
    case BinaryOperator::subtract:
      return left - right;
    case BinaryOperator::multiply:
      return left * right;
    case BinaryOperator::divide:
      return left / right;
    case BinaryOperator::floor_divide:
      return floor_division(left, right).first;
    case BinaryOperator::modulo:
      return floor_division(left, right).second;
    case BinaryOperator::power:
      break;
  }
  const double result = std::pow(left, right);
  if (std::isnan(result) && !std::isnan(left) && !std::isnan(right))
    return evaluation.fail("a power that is not a real number");
  if (std::isinf(result) && !std::isinf(left) && !std::isinf(right))
    return evaluation.fail("a power that is too large");
  return result;
}

bool same_kind(const Sequence* left, const Sequence* right) {
  return left && right && left->kind == right->kind &&
         (left->kind == Sequence::Kind::list || left->kind == Sequence::Kind::tuple);
}

// A bound of a slice as Python reads it: from the end where negative, never beyond the ends.
Integer clamped(Integer index, Integer count, Integer low, Integer high) {
  if (index < 0) index += count;
  return std::clamp(index, low, high);
}

}  // namespace

Value Evaluation::refuse_operation(std::string_view symbol, const Value& left, const Value& right) {
  if (left.undefined()) return fail(reason_of(left));
  if (right.undefined()) return fail(reason_of(right));
  return fail(fmt::format("'{}' between {} and {}", symbol, type_name(left), type_name(right)));
}

Value Evaluation::add(const Value& left, const Value& right) {
  if (left.text() && right.text()) {
    const bool markup = left.is_markup() || right.is_markup();
    const auto part = [&](const Value& value) {
      return markup && !value.is_markup() ? escape_html(*value.text()) : *value.text();
    };
    if (!markup) {
      if (!charge_bytes(left.text()->size() + right.text()->size())) return {};
      return Value(*left.text() + *right.text());
    }
    return text(part(left) + part(right), true);
  }
  const Sequence *first = left.sequence(), *second = right.sequence();
  if (!same_kind(first, second)) return refuse_operation("+", left, right);
  std::vector<Value> joined = first->elements;
  joined.insert(joined.end(), second->elements.begin(), second->elements.end());
  return list(std::move(joined), first->kind);
}

Value Evaluation::repeat(const Value& repeated, Integer times) {
  times = std::max<Integer>(times, 0);
  const auto most = static_cast<Integer>(options_.most_bytes);
  if (const std::string* unit = repeated.text()) {
    if (times * static_cast<Integer>(std::max<std::size_t>(unit->size(), 1)) > most || times > most)
      return fail("the template makes too much text; it is refused");
    std::string made;
    for (Integer i = 0; i < times && !unit->empty(); ++i) made += *unit;
    return text(std::move(made), repeated.is_markup());
  }
  const Sequence& sequence = *repeated.sequence();
  if (times > most || times * static_cast<Integer>(sequence.elements.size()) * 64 > most)
    return fail("a list that is too large");
  std::vector<Value> elements;
  for (Integer i = 0; i < times && !sequence.elements.empty(); ++i)
    elements.insert(elements.end(), sequence.elements.begin(), sequence.elements.end());
  return list(std::move(elements), sequence.kind);
}

Value Evaluation::multiply(const Value& left, const Value& right) {
  const auto repeats = [](const Value& value) { return value.text() || same_kind(value.sequence(), value.sequence()); };
  Integer times = 0;
  if (repeats(left) && to_integer(right, times)) return repeat(left, times);
  if (repeats(right) && to_integer(left, times)) return repeat(right, times);
  return refuse_operation("*", left, right);
}

Value Evaluation::arithmetic(BinaryOperator operation, const Value& left, const Value& right) {
  Integer first = 0, second = 0, result = 0;
  if (to_integer(left, first) && to_integer(right, second)) {
    switch (integer_operation(operation, first, second, result)) {
      case Outcome::done:
        return result;
      case Outcome::overflow:
        return fail(fmt::format("'{}' gives an integer of more than 127 bits", symbol_of(operation)));
      case Outcome::zero:
        return fail("division by zero");
      case Outcome::as_float:
        break;
    }
  }
  double a = 0, b = 0;
  to_number(left, a);
  to_number(right, b);
  return float_operation(*this, operation, a, b);
}

Value Evaluation::binary(BinaryOperator operation, const Value& left, const Value& right) {
  if (failed()) return {};
  if (is_number(left) && is_number(right)) return arithmetic(operation, left, right);
  if (operation == BinaryOperator::modulo && left.text()) return format_percent(*this, left, right);
  if (left.undefined() || right.undefined()) return refuse_operation(symbol_of(operation), left, right);
  if (operation == BinaryOperator::add) return add(left, right);
  if (operation == BinaryOperator::multiply) return multiply(left, right);
  return refuse_operation(symbol_of(operation), left, right);
}

bool Evaluation::equal(const Value& left, const Value& right) {
  charge(std::min(extent_of(left).weight, extent_of(right).weight));
  if (left.text() && right.text()) charge(std::min(left.text()->size(), right.text()->size()) / 64);
  return !failed() && is_equal(left, right);
}

bool Evaluation::less(const Value& left, const Value& right) {
  if (!charge(1)) return false;
  Integer first = 0, second = 0;
  if (to_integer(left, first) && to_integer(right, second)) return first < second;
  double a = 0, b = 0;
  if (to_number(left, a) && to_number(right, b)) return a < b;
  if (left.text() && right.text()) return *left.text() < *right.text();
  const Sequence *one = left.sequence(), *other = right.sequence();
  if (!same_kind(one, other)) {
    refuse_operation("<", left, right);
    return false;
  }
  const std::size_t common = std::min(one->elements.size(), other->elements.size());
  for (std::size_t i = 0; i < common; ++i)
    if (!equal(one->elements[i], other->elements[i])) return less(one->elements[i], other->elements[i]);
  return one->elements.size() < other->elements.size();
}

bool Evaluation::contains(const Value& container, const Value& element) {
  if (const std::string* text = container.text()) {
    if (element.text() == nullptr) {
      fail(fmt::format("'in' of a text needs a text on its left, not {}", type_name(element)));
      return false;
    }
    charge(text->size() / 16);
    return text->find(*element.text()) != std::string::npos;
  }
  if (const Dictionary* dictionary = container.dictionary()) {
    if (!is_hashable(element)) fail(fmt::format("{} as the key of a mapping", type_name(element)));
    return !failed() && dictionary->find(element) != nullptr;
  }
  for (const Value& held : iterate(container))
    if (equal(held, element)) return true;
  return false;
}

bool Evaluation::holds(Comparator comparator, const Value& left, const Value& right) {
  const bool ordered = is_number(left) && is_number(right);
  double a = 0, b = 0;
  const bool numbers = ordered && to_number(left, a) && to_number(right, b);
  const bool unordered = numbers && (std::isnan(a) || std::isnan(b));  // then only != holds
  switch (comparator) {
    case Comparator::equal:
      return equal(left, right);
    case Comparator::unequal:
      return !equal(left, right) && !failed();
    case Comparator::less:
      return less(left, right);
    case Comparator::less_or_equal:
      return !unordered && !less(right, left) && !failed();
    case Comparator::greater:
      return less(right, left);
    case Comparator::greater_or_equal:
      return !unordered && !less(left, right) && !failed();
    case Comparator::in:
      return contains(right, left);
    case Comparator::not_in:
      return !contains(right, left) && !failed();
  }
  return false;
}

Value Evaluation::compare(const Comparison& comparison) {
  Value left = evaluate(*comparison.first);
  for (const auto& [comparator, operand] : comparison.rest) {
    Value right = evaluate(*operand);
    if (failed() || !holds(comparator, left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Evaluation::slice(const SliceAccess& access) {
  const Value subject = evaluate(*access.subject);
  const ExpressionPointer* given[] = {&access.start, &access.stop, &access.step};
  std::optional<Integer> bounds[3];
  for (std::size_t i = 0; i < 3; ++i) {
    if (!*given[i]) continue;
    const Value bound = evaluate(**given[i]);
    Integer integer = 0;
    if (failed()) return {};
    if (to_integer(bound, integer))
      bounds[i] = integer;
    else if (!bound.is_none())
      return fail(fmt::format("the bounds of a slice are integers or none, not {}", type_name(bound)));
  }
  return slice_of(*this, subject, bounds[0], bounds[1], bounds[2]);
}

Value slice_of(Evaluation& evaluation, const Value& subject, std::optional<Integer> first, std::optional<Integer> last,
               std::optional<Integer> stride) {
  if (subject.undefined()) return evaluation.fail(reason_of(subject));
  const Sequence* sequence = subject.sequence();
  const std::string* text = subject.text();
  if (text == nullptr && (sequence == nullptr || !sequence->is_indexed()))
    return evaluation.fail(fmt::format("a slice of {}", type_name(subject)));
  const Integer step = stride.value_or(1);
  if (step == 0) return evaluation.fail("a slice with steps of zero");
  if (text && !evaluation.charge_bytes(text->size())) return {};
  const auto characters = text ? code_points(*text) : std::vector<std::string_view>{};
  const auto count = static_cast<Integer>(text ? characters.size() : sequence->elements.size());
  const Integer low = step > 0 ? 0 : -1, high = step > 0 ? count : count - 1;
  const Integer start = first ? clamped(*first, count, low, high) : (step > 0 ? low : high);
  const Integer stop = last ? clamped(*last, count, low, high) : (step > 0 ? high : low);
  std::string characters_taken;
  std::vector<Value> elements;
  for (Integer i = start; step > 0 ? i < stop : i > stop; i += step) {
    const auto at = static_cast<std::size_t>(i);
    if (text)
      characters_taken += characters[at];
    else
      elements.push_back(sequence->elements[at]);
    if (step > count || step < -count) break;
  }
  if (text) return evaluation.text(std::move(characters_taken), subject.is_markup());
  Value made = evaluation.list(std::move(elements), sequence->kind);
  if (Sequence* taken = made.sequence(); taken && taken->kind == Sequence::Kind::range) {
    taken->start = sequence->start + start * sequence->step;
    taken->stop = sequence->start + stop * sequence->step;
    if (__builtin_mul_overflow(sequence->step, step, &taken->step)) return evaluation.fail("a slice with such steps");
  }
  return made;
}

}  // namespace muster::chat
