#include "reward/math/compare.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "reward/math/measured.hpp"
#include "reward/math/residue.hpp"

namespace muster::reward::math {
namespace {

// A number with six decimals or more stands for all that are rounded to it.
constexpr std::size_t enough_decimals = 6;

bool rounds_to(const Form& exact, const Form& decimal) {
  if (decimal.decimals.value_or(0) < enough_decimals || has_names(exact.value)) return false;
  const auto value = measure(exact.value, 0), rounded = measure(decimal.value, 0);
  if (!value || !rounded || std::abs(value->value) == 0.0L) return false;
  const long double half = 0.5L * std::pow(10.0L, -static_cast<long double>(*decimal.decimals));
  const long double difference = std::abs(value->value - rounded->value);
  return difference <= half * 1.000001L && difference <= 1e-5L * std::abs(value->value);
}

Verdict compare_expressions(const Expression& a, const Expression& b) {
  if (!is_rational(a) || !is_rational(b)) return compare_values(a, b);
  const auto equal = equal_residues(a, b);
  if (!equal) return Verdict::unknown;
  return *equal ? Verdict::equal : Verdict::different;
}

bool is_literal(const Expression& expression) {
  return expression.operation == Operation::number ||
         (expression.operation == Operation::negate && expression.operands[0].operation == Operation::number);
}

// 50%, 0.5 and 50 are taken for the same where one of the two has the sign.
Verdict compare_plain(const Form& right, const Form& given) {
  const bool same_sign = right.percent == given.percent;
  if (same_sign && (rounds_to(right, given) || rounds_to(given, right))) return Verdict::equal;
  const Verdict plain = compare_expressions(right.value, given.value);
  if (same_sign || (plain == Verdict::equal && is_literal(right.value) && is_literal(given.value))) return plain;
  const auto hundredth = [](const Form& form) {
    return form.percent ? make(Operation::divide, form.value, number("100")) : form.value;
  };
  return compare_expressions(hundredth(right), hundredth(given));
}

// The worst of several: one difference decides.
Verdict both(Verdict a, Verdict b) {
  if (a == Verdict::different || b == Verdict::different) return Verdict::different;
  return a == Verdict::equal && b == Verdict::equal ? Verdict::equal : Verdict::unknown;
}

Verdict compare_in_order(const std::vector<Form>& right, const std::vector<Form>& given) {
  if (right.size() != given.size()) return Verdict::different;
  Verdict verdict = Verdict::equal;
  for (std::size_t i = 0; i < right.size() && verdict != Verdict::different; ++i)
    verdict = both(verdict, compare(right[i], given[i]));
  return verdict;
}

// Each item takes one of the others that is equal to it.
Verdict compare_in_any_order(const std::vector<Form>& right, const std::vector<Form>& given) {
  if (right.size() != given.size()) return Verdict::different;
  std::vector<bool> taken(given.size());
  Verdict verdict = Verdict::equal;
  for (const Form& item : right) {
    bool found = false, unsure = false;
    for (std::size_t i = 0; i < given.size() && !found; ++i) {
      if (taken[i]) continue;
      const Verdict one = compare(item, given[i]);
      unsure |= one == Verdict::unknown;
      if (one == Verdict::equal) found = taken[i] = true;
    }
    if (!found) verdict = both(verdict, unsure ? Verdict::unknown : Verdict::different);
  }
  return verdict;
}

bool is_ordered(const Form& group) { return !group.is_set() && !group.is_bare(); }

Verdict compare_groups(const Form& right, const Form& given) {
  if (is_ordered(right) && is_ordered(given)) {
    const Verdict items = compare_in_order(right.items, given.items);
    if (right.open == given.open && right.close == given.close) return items;
    // (1, 2] and [1, 2] are intervals; (1, 2, 3) and [1, 2, 3] two ways to write down one list.
    return items == Verdict::different || right.items.size() == 2 ? Verdict::different : Verdict::unknown;
  }
  const Verdict items = compare_in_any_order(right.items, given.items);
  if (!is_ordered(right) && !is_ordered(given)) return items;
  // One has an order, and the other may not mean one.
  const Form& ordered = is_ordered(right) ? right : given;
  const Form& other = is_ordered(right) ? given : right;
  if (items == Verdict::equal && other.is_bare() && ordered.open == "(" && ordered.close == ")" &&
      compare_in_order(right.items, given.items) == Verdict::equal)
    return Verdict::equal;
  return items == Verdict::different ? Verdict::different : Verdict::unknown;
}

// Left minus right side, with < for > and the sides changed.
struct Balance {
  Expression expression;
  std::string sign;
};

std::optional<Balance> balance_of(const Form& relation) {
  if (relation.items.size() != 2 || relation.items[0].kind != Form::Kind::value || relation.items[1].kind != Form::Kind::value)
    return std::nullopt;
  const std::string& sign = relation.signs.front();
  const bool flip = sign == ">" || sign == "\\ge";
  const Expression &left = relation.items[flip ? 1 : 0].value, &right = relation.items[flip ? 0 : 1].value;
  return Balance{make(Operation::add, left, make(Operation::negate, right)), flip ? (sign == ">" ? "<" : "\\le") : sign};
}

// 2x = 4y and x = 2y: one is a multiple of the other; of an inequality a positive one.
Verdict compare_balances(const Form& right, const Form& given) {
  const auto a = balance_of(right), b = balance_of(given);
  if (!a || !b || a->sign != b->sign) return Verdict::unknown;
  const auto first_a = measure(a->expression, 0), first_b = measure(b->expression, 0);
  if (!first_a || !first_b) return Verdict::unknown;
  const bool order = a->sign == "<" || a->sign == "\\le";
  if (std::abs(first_a->value) <= 8 * first_a->error || std::abs(first_b->value) <= 8 * first_b->error) return Verdict::unknown;
  if (order && (first_a->value / first_b->value).real() <= 0) return Verdict::unknown;
  for (int point = 1; point < measured_points; ++point) {
    const auto at_a = measure(a->expression, point), at_b = measure(b->expression, point);
    if (!at_a || !at_b || compare_measured(product(*first_a, *at_b), product(*first_b, *at_a)) != Verdict::equal)
      return Verdict::unknown;
  }
  return Verdict::equal;
}

Form turned(const Form& relation) {
  const auto mirrored = [](const std::string& sign) {
    if (sign == "<") return std::string(">");
    if (sign == ">") return std::string("<");
    if (sign == "\\le") return std::string("\\ge");
    return sign == "\\ge" ? std::string("\\le") : sign;
  };
  Form form = relation;
  std::ranges::reverse(form.items);
  std::ranges::reverse(form.signs);
  std::ranges::transform(form.signs, form.signs.begin(), mirrored);
  return form;
}

// The x of x > 3 and 1 < x < 2, which says for which x it holds: two of these are either the same or not.
std::optional<std::string> isolated_name(const Form& relation) {
  std::optional<std::string> name;
  for (const Form& side : relation.items) {
    if (side.kind != Form::Kind::value) return std::nullopt;
    if (!has_names(side.value)) continue;
    if (name || side.value.operation != Operation::name) return std::nullopt;
    name = side.value.text;
  }
  return name;
}

Verdict compare_relations(const Form& right, const Form& given) {
  if (right.assigns && given.assigns) {
    const Verdict values = compare(right.items.back(), given.items.back());
    if (right.text == given.text) return values;
    return compare_balances(right, given) == Verdict::equal ? Verdict::equal : both(values, Verdict::unknown);
  }
  Verdict sides = Verdict::different;
  for (const Form& way : {given, turned(given)}) {
    if (right.signs != way.signs) continue;
    const Verdict one = compare_in_order(right.items, way.items);
    if (one == Verdict::equal) return one;
    if (one == Verdict::unknown) sides = one;
  }
  const auto isolated = isolated_name(right);
  return isolated && isolated == isolated_name(given) ? sides : compare_balances(right, given);
}

// What is left of "x = 5" where the other is a bare 5; of "2 + 3 = 5" the last side, too.
const Form* last_side(const Form& relation) {
  const bool equations = std::ranges::all_of(relation.signs, [](const std::string& sign) { return sign == "="; });
  const bool computes = relation.items.front().kind == Form::Kind::value && !has_names(relation.items.front().value);
  return equations && (relation.assigns || computes) ? &relation.items.back() : nullptr;
}

Verdict compare_relation_with(const Form& relation, const Form& other, bool relation_is_right) {
  if (const Form* side = last_side(relation)) return relation_is_right ? compare(*side, other) : compare(other, *side);
  const bool comparable = other.kind == Form::Kind::value || other.kind == Form::Kind::words;
  return comparable && relation_is_right ? Verdict::different : Verdict::unknown;
}

}  // namespace

Verdict compare(const Form& right, const Form& given) {
  using enum Form::Kind;
  if (right.kind == relation && given.kind == relation) return compare_relations(right, given);
  if (right.kind == relation) return compare_relation_with(right, given, true);
  if (given.kind == relation) return compare_relation_with(given, right, false);
  if (right.kind == words || given.kind == words)
    return right.kind == given.kind && right.text == given.text ? Verdict::equal : Verdict::different;
  if (right.kind == given.kind) {
    if (right.kind == value) return compare_plain(right, given);
    if (right.kind == group) return compare_groups(right, given);
    if (right.kind == matrix) return compare_in_order(right.items, given.items);
    // Intervals can be joined in several ways.
    return right.items.size() == given.items.size() ? compare_in_any_order(right.items, given.items) : Verdict::unknown;
  }
  // One of several values is not their set, and the set of one is that.
  const Form &list = right.kind == group ? right : given, &other = right.kind == group ? given : right;
  if (list.kind != group || other.kind != value) return Verdict::unknown;
  if (is_ordered(list) || list.items.size() != 1) return Verdict::different;
  return compare(list.items.front(), other);
}

}  // namespace muster::reward::math
