#include "reward/math/residue.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/text.hpp"
#include "reward/math/name_bits.hpp"

namespace muster::reward::math {
namespace {

constexpr std::int64_t largest_factorial = 1000;
__extension__ using Wide = unsigned __int128;

// A prime field, with a value for every name.
class PrimeField {
 public:
  using Value = std::uint64_t;

  PrimeField(std::uint64_t prime, std::uint64_t point) : prime_(prime), point_(point) {}

  // Absent: a denominator is zero here.
  std::optional<Value> evaluate(const Expression& expression) const {
    using enum Operation;
    const auto& operands = expression.operands;
    switch (expression.operation) {
      case number:
        return of_text(expression.text);
      case name:
        return of_name(expression.text);
      case factorial:
        return of_factorial(small_integer(operands[0]));
      case binomial: {
        const auto above = small_integer(operands[0]), below = small_integer(operands[1]);
        const auto all = of_factorial(above), some = of_factorial(below);
        const auto rest = of_factorial(above && below ? std::optional(*above - *below) : std::nullopt);
        return all && some && rest ? divided(*all, times(*some, *rest)) : std::nullopt;
      }
      case power:
        return raised(evaluate(operands[0]), *small_integer(operands[1]));
      default:
        break;
    }
    const auto a = evaluate(operands[0]);
    if (!a) return std::nullopt;
    if (expression.operation == negate) return minus(*a);
    const auto b = evaluate(operands[1]);
    if (!b) return std::nullopt;
    if (expression.operation == add) return plus(*a, *b);
    return expression.operation == multiply ? times(*a, *b) : divided(*a, *b);
  }

 private:
  Value plus(Value a, Value b) const { return (a + b) % prime_; }
  Value minus(Value a) const { return (prime_ - a) % prime_; }
  Value times(Value a, Value b) const { return static_cast<Value>(static_cast<Wide>(a) * b % prime_); }

  Value to_the(Value base, std::uint64_t exponent) const {
    Value result = 1;
    for (; exponent > 0; exponent >>= 1, base = times(base, base))
      if (exponent & 1) result = times(result, base);
    return result;
  }
  std::optional<Value> divided(Value a, Value b) const {
    if (b == 0) return std::nullopt;
    return times(a, to_the(b, prime_ - 2));
  }
  std::optional<Value> raised(std::optional<Value> base, std::int64_t exponent) const {
    if (!base || (*base == 0 && exponent <= 0)) return std::nullopt;
    const Value result = to_the(*base, static_cast<std::uint64_t>(exponent < 0 ? -exponent : exponent));
    return exponent < 0 ? divided(1, result) : std::optional(result);
  }
  std::optional<Value> of_factorial(std::optional<std::int64_t> whole) const {
    if (!whole || *whole < 0 || *whole > largest_factorial) return std::nullopt;
    Value result = 1;
    for (std::int64_t i = 2; i <= *whole; ++i) result = times(result, static_cast<Value>(i));
    return result;
  }

  std::optional<Value> of_text(std::string_view text) const {
    const std::size_t end = std::min(text.find('e'), text.size());
    const auto written = end == text.size() ? std::optional<std::int64_t>(0) : parse_number<std::int64_t>(text.substr(end + 1));
    if (!written) return std::nullopt;
    std::int64_t exponent = *written;
    Value digits = 0;
    bool behind_point = false;
    for (const char c : text.substr(0, end)) {
      if (c == '.') {
        behind_point = true;
        continue;
      }
      digits = plus(times(digits, 10), static_cast<Value>(c - '0'));
      if (behind_point) --exponent;
    }
    const auto scale = raised(Value{10}, exponent);
    return scale ? std::optional(times(digits, *scale)) : std::nullopt;
  }

  Value of_name(std::string_view name) const { return name_bits(name, point_) % prime_; }

  std::uint64_t prime_, point_;
};

}  // namespace

bool is_rational(const Expression& expression) {
  using enum Operation;
  switch (expression.operation) {
    case number:
    case name:
      return true;
    case power:
      return is_rational(expression.operands[0]) && small_integer(expression.operands[1]).has_value();
    case factorial:
    case binomial:
      return std::ranges::all_of(expression.operands, [](const Expression& operand) {
        const auto whole = small_integer(operand);
        return whole && *whole >= 0 && *whole <= largest_factorial;
      });
    case negate:
    case add:
    case multiply:
    case divide:
      return std::ranges::all_of(expression.operands, is_rational);
    default:
      return false;
  }
}

std::optional<bool> equal_residues(const Expression& a, const Expression& b) {
  constexpr std::array<std::uint64_t, 2> primes{(std::uint64_t{1} << 61) - 1, (std::uint64_t{1} << 61) - 31};
  bool left_seen = false, right_seen = false, both_seen = false;
  for (const std::uint64_t prime : primes)
    for (std::uint64_t point = 1; point <= 3; ++point) {
      const PrimeField field(prime, point);
      const auto left = field.evaluate(a), right = field.evaluate(b);
      left_seen |= left.has_value();
      right_seen |= right.has_value();
      if (!left || !right) continue;
      both_seen = true;
      if (*left != *right) return false;
    }
  if (both_seen) return true;
  return left_seen != right_seen ? std::optional(false) : std::nullopt;
}

}  // namespace muster::reward::math
