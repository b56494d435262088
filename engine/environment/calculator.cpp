#include "environment/calculator.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <numbers>
#include <optional>

#include "base/text.hpp"

namespace muster::environment {
namespace {

constexpr int deepest = 64;

struct NamedFunction {
  std::string_view name;
  double (*compute)(double);
};
constexpr std::array functions{
    NamedFunction{"sqrt", [](double x) { return std::sqrt(x); }},   NamedFunction{"abs", [](double x) { return std::abs(x); }},
    NamedFunction{"exp", [](double x) { return std::exp(x); }},     NamedFunction{"ln", [](double x) { return std::log(x); }},
    NamedFunction{"log", [](double x) { return std::log10(x); }},   NamedFunction{"sin", [](double x) { return std::sin(x); }},
    NamedFunction{"cos", [](double x) { return std::cos(x); }},     NamedFunction{"tan", [](double x) { return std::tan(x); }},
    NamedFunction{"floor", [](double x) { return std::floor(x); }}, NamedFunction{"ceil", [](double x) { return std::ceil(x); }},
    NamedFunction{"round", [](double x) { return std::round(x); }}};

// Reads an expression from left to right. After a failure whatever it returns means nothing.
class Reading {
 public:
  explicit Reading(std::string_view text) : text_(text) {}

  std::optional<double> whole() {
    const double value = sum();
    skip_blanks();
    if (failed_ || at_ < text_.size() || !std::isfinite(value)) return std::nullopt;
    return value;
  }

 private:
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  bool take(std::string_view sign) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(sign)) return false;
    at_ += sign.size();
    return true;
  }
  double fail() {
    failed_ = true;
    at_ = text_.size();
    return 0;
  }

  double sum() {
    double value = product();
    for (;;) {
      if (take("+"))
        value += product();
      else if (take("-"))
        value -= product();
      else
        return value;
    }
  }
  double product() {
    double value = signed_power();
    for (;;) {
      if (take("*"))
        value *= signed_power();
      else if (take("/"))
        value /= signed_power();
      else if (take("%"))
        value = std::fmod(value, signed_power());
      else
        return value;
    }
  }
  double signed_power() {
    if (++depth_ > deepest) return fail();
    const double value = take("-") ? -signed_power() : take("+") ? signed_power() : power();
    --depth_;
    return value;
  }
  // To the right first: 2^3^2 is 2^9.
  double power() {
    const double base = atom();
    return take("**") || take("^") ? std::pow(base, signed_power()) : base;
  }
  double atom() {
    if (take("(")) {
      if (++depth_ > deepest) return fail();
      const double value = sum();
      --depth_;
      return take(")") ? value : fail();
    }
    skip_blanks();
    const std::size_t begin = at_;
    while (at_ < text_.size() && ((text_[at_] >= 'a' && text_[at_] <= 'z') || (text_[at_] >= 'A' && text_[at_] <= 'Z'))) ++at_;
    if (at_ > begin) return named(to_lower(text_.substr(begin, at_ - begin)));
    while (at_ < text_.size() && ((text_[at_] >= '0' && text_[at_] <= '9') || text_[at_] == '.')) ++at_;
    const auto number = parse_number<double>(text_.substr(begin, at_ - begin));
    return number ? *number : fail();
  }
  double named(const std::string& name) {
    if (name == "pi") return std::numbers::pi;
    if (name == "e") return std::numbers::e;
    for (const NamedFunction& function : functions)
      if (function.name == name) {
        skip_blanks();
        return at_ < text_.size() && text_[at_] == '(' ? function.compute(atom()) : fail();
      }
    return fail();
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool failed_ = false;
};

}  // namespace

Result<std::string> calculate(std::string_view expression) {
  constexpr std::size_t longest = 1000;
  const auto value = expression.size() <= longest ? Reading(expression).whole() : std::nullopt;
  if (!value) return bad_input("this is not an expression with a number as its value", "as in 2 * (3 + sqrt(16))");
  constexpr double exact = 9007199254740992.0;  // whole numbers up to here are doubles
  if (std::floor(*value) == *value && std::abs(*value) <= exact) return fmt::format("{}", static_cast<std::int64_t>(*value));
  return fmt::format("{:.12g}", *value);
}

}  // namespace muster::environment
