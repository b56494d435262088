#include "reward/math/measured.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <numbers>
#include <string_view>

#include "reward/math/name_bits.hpp"

namespace muster::reward::math {
namespace {

using Number = std::complex<long double>;
constexpr long double rounding = 4 * std::numeric_limits<long double>::epsilon();
constexpr long double pi_value = std::numbers::pi_v<long double>, euler_value = std::numbers::e_v<long double>;

std::optional<Measured> measured(Number value, long double error) {
  const long double size = std::abs(value);
  if (!std::isfinite(size) || !std::isfinite(error)) return std::nullopt;
  return Measured{value, error + size * rounding};
}

std::optional<Measured> checked(const Measured& a) { return measured(a.value, a.error); }

bool is_real(const Measured& a) { return std::abs(a.value.imag()) <= a.error; }

struct RealFunction {
  std::string_view name;
  long double (*value)(long double);
  long double (*slope)(long double);
  long double least = -std::numeric_limits<long double>::infinity();  // where it is defined
  long double most = std::numeric_limits<long double>::infinity();
};

const std::array functions{
    RealFunction{"sin", [](long double x) { return std::sin(x); }, [](long double x) { return std::cos(x); }},
    RealFunction{"cos", [](long double x) { return std::cos(x); }, [](long double x) { return std::sin(x); }},
    RealFunction{"tan", [](long double x) { return std::tan(x); },
                 [](long double x) { return 1 + std::tan(x) * std::tan(x); }},
    RealFunction{"arcsin", [](long double x) { return std::asin(x); },
                 [](long double x) { return 1 / std::sqrt(1 - x * x); }, -1, 1},
    RealFunction{"arccos", [](long double x) { return std::acos(x); },
                 [](long double x) { return 1 / std::sqrt(1 - x * x); }, -1, 1},
    RealFunction{"arctan", [](long double x) { return std::atan(x); }, [](long double x) { return 1 / (1 + x * x); }},
    RealFunction{"sinh", [](long double x) { return std::sinh(x); }, [](long double x) { return std::cosh(x); }},
    RealFunction{"cosh", [](long double x) { return std::cosh(x); }, [](long double x) { return std::sinh(x); }},
    RealFunction{"tanh", [](long double x) { return std::tanh(x); }, [](long double) { return 1.0L; }},
    RealFunction{"ln", [](long double x) { return std::log(x); }, [](long double x) { return 1 / x; },
                 std::numeric_limits<long double>::min()},
};

std::optional<Measured> applied(std::string_view name, const Measured& at) {
  const auto found = std::ranges::find(functions, name, &RealFunction::name);
  const long double x = at.value.real();
  if (found == functions.end() || !is_real(at) || x < found->least || x > found->most) return std::nullopt;
  return measured(found->value(x), std::abs(found->slope(x)) * at.error);
}

std::optional<Measured> quotient(const Measured& a, const Measured& b) {
  const long double size = std::abs(b.value);
  if (size <= 4 * b.error) return std::nullopt;
  const Number value = a.value / b.value;
  return measured(value, (a.error + std::abs(value) * b.error) / (size - b.error));
}

std::optional<Measured> whole_power(Measured base, std::int64_t exponent) {
  if (exponent == 0 && std::abs(base.value) <= base.error) return std::nullopt;
  std::optional<Measured> result = Measured{1, 0};
  for (auto left = static_cast<std::uint64_t>(exponent < 0 ? -exponent : exponent); left > 0 && result; left >>= 1) {
    if (left & 1) result = checked(product(*result, base));
    base = product(base, base);
  }
  return result && exponent < 0 ? quotient({1, 0}, *result) : result;
}

// Square roots of negative numbers are imaginary; the other powers of them have several values.
std::optional<Measured> square_root(const Measured& a) {
  const Number value = std::sqrt(is_real(a) ? Number(a.value.real(), 0) : a.value);
  const long double size = std::abs(value);
  return measured(value, size * size > 4 * a.error ? a.error / size : std::sqrt(a.error + size * size) + size);
}

std::optional<Measured> real_power(const Measured& base, const Measured& exponent) {
  const long double x = base.value.real(), y = exponent.value.real();
  if (!is_real(base) || !is_real(exponent) || x <= 4 * base.error) return std::nullopt;
  const long double value = std::pow(x, y);
  return measured(value, value * (std::abs(y) * base.error / x + std::abs(std::log(x)) * exponent.error +
                                  std::abs(y * std::log(x)) * rounding));
}

std::optional<Measured> exponential(const Measured& a) {
  const Number value = std::exp(a.value);
  return measured(value, std::abs(value) * (a.error + std::abs(a.value) * rounding));
}

long double factorial_of(std::optional<std::int64_t> whole) {
  return whole && *whole >= 0 && *whole <= 1000 ? std::tgamma(static_cast<long double>(*whole) + 1)
                                                : std::numeric_limits<long double>::quiet_NaN();
}

// Between 0.3 and 2.3; negative for some names at the later points.
long double value_of_name(std::string_view name, int point) {
  const std::uint64_t bits = name_bits(name, static_cast<std::uint64_t>(point));
  const long double size = 0.3L + 2.0L * static_cast<long double>(bits % 1009) / 1009;
  return point >= 4 && (bits >> 20) % 4 != 0 ? -size : size;
}

}  // namespace

Measured product(const Measured& a, const Measured& b) {
  const Number value = a.value * b.value;
  return {value, std::abs(a.value) * b.error + std::abs(b.value) * a.error + a.error * b.error +
                     std::abs(value) * rounding};
}

std::optional<Measured> measure(const Expression& expression, int point) {
  using enum Operation;
  const auto& operands = expression.operands;
  switch (expression.operation) {
    case number:
      return measured(std::strtold(expression.text.c_str(), nullptr), 0);
    case name:
      return Measured{value_of_name(expression.text, point), 0};
    case pi:
      return measured(pi_value, 0);
    case euler:
      return measured(euler_value, 0);
    case imaginary:
      return Measured{Number(0, 1), 0};
    case factorial:
      return measured(factorial_of(small_integer(operands[0])), 0);
    case binomial: {
      const auto above = small_integer(operands[0]), below = small_integer(operands[1]);
      if (!above || !below) return std::nullopt;
      const auto some = measured(factorial_of(below) * factorial_of(*above - *below), 0);
      const auto all = measured(factorial_of(above), 0);
      return all && some ? quotient(*all, *some) : std::nullopt;
    }
    default:
      break;
  }
  const auto a = measure(operands[0], point);
  if (!a) return std::nullopt;
  if (expression.operation == negate) return Measured{-a->value, a->error};
  if (expression.operation == absolute) return measured(std::abs(a->value), a->error);
  if (expression.operation == function) return applied(expression.text, *a);
  if (expression.operation == power)
    if (const auto whole = small_integer(operands[1])) return whole_power(*a, *whole);
  const auto b = measure(operands[1], point);
  if (!b) return std::nullopt;
  switch (expression.operation) {
    case add:
      return measured(a->value + b->value, a->error + b->error);
    case multiply:
      return checked(product(*a, *b));
    case divide:
      return quotient(*a, *b);
    default:
      break;
  }
  if (expression.operation == power && operands[0].operation == euler) return exponential(*b);
  const bool square = expression.operation == root ? std::abs(b->value - 2.0L) <= b->error
                                                   : std::abs(b->value - 0.5L) <= b->error;
  if (square) return square_root(*a);
  if (expression.operation == power) return real_power(*a, *b);
  const auto exponent = quotient({1, 0}, *b);
  return exponent ? real_power(*a, *exponent) : std::nullopt;
}

Verdict compare_measured(const Measured& a, const Measured& b) {
  constexpr long double tiny = 1e-9L, nowhere_near = 1e5L;
  const long double difference = std::abs(a.value - b.value), error = a.error + b.error;
  if (difference > nowhere_near * error) return Verdict::different;
  return difference <= 4 * error && error <= tiny ? Verdict::equal : Verdict::unknown;
}

Verdict compare_values(const Expression& a, const Expression& b) {
  bool seen = false, unsure = false;
  for (int point = 0; point < measured_points; ++point) {
    const auto left = measure(a, point), right = measure(b, point);
    if (!left && !right) continue;
    const Verdict verdict = left && right ? compare_measured(*left, *right) : Verdict::unknown;
    if (verdict == Verdict::different && point < 4) return Verdict::different;
    unsure |= verdict != Verdict::equal;
    seen |= verdict == Verdict::equal;
  }
  return seen && !unsure ? Verdict::equal : Verdict::unknown;
}

}  // namespace muster::reward::math
