#include "reward/math/expression_parser.hpp"

#include <algorithm>
#include <utility>

namespace muster::reward::math {
namespace {

constexpr int deepest_expression = 100;
constexpr std::size_t most_tokens = 2000;

// Once something is wrong, the rest is passed over: every loop ends, and what it made is thrown away.
class ExpressionParser {
 public:
  explicit ExpressionParser(std::span<const Token> tokens) : tokens_(tokens.begin(), tokens.end()) {}

  std::variant<Expression, Unreadable> all() {
    if (tokens_.size() > most_tokens) return Unreadable::unsupported;
    drop_units();
    Expression whole = sum();
    if (!wrong_ && at_ < tokens_.size()) fail(is("_") || is(":") || is("'") ? Unreadable::unsupported : Unreadable::malformed);
    if (wrong_) return *wrong_;
    return whole;
  }

 private:
  void drop_units() {
    const std::size_t all = tokens_.size();
    std::size_t end = all;
    while (end > 1 && tokens_[end - 1].kind == Token::Kind::word) --end;
    if (end == all && all > 3 && tokens_[all - 2].is("^") && tokens_[all - 3].kind == Token::Kind::word) end = all - 3;
    while (end > 1 && tokens_[end - 1].kind == Token::Kind::word) --end;
    tokens_.resize(end);
  }

  const Token* next() const { return !wrong_ && at_ < tokens_.size() ? &tokens_[at_] : nullptr; }
  bool is(std::string_view sign) const { return next() != nullptr && next()->is(sign); }
  bool is(Token::Kind kind) const { return next() != nullptr && next()->kind == kind; }
  bool take(std::string_view sign) {
    if (!is(sign)) return false;
    ++at_;
    return true;
  }
  Expression fail(Unreadable why) {
    if (!wrong_) wrong_ = why;
    return {};
  }
  void expect(std::string_view sign) {
    if (!take(sign)) fail(Unreadable::malformed);
  }

  Expression sum() {
    if (++depth_ > deepest_expression) return fail(Unreadable::unsupported);
    take("+");
    Expression total = product();
    while (is("+") || is("-")) {
      const bool minus = tokens_[at_++].is("-");
      Expression term = product();
      total = make(Operation::add, std::move(total), minus ? make(Operation::negate, std::move(term)) : std::move(term));
    }
    --depth_;
    return total;
  }

  // 1/2x is half of x to some and a half over x to others, and so is 1\frac{1}{2}x.
  Expression product() {
    Expression result = signed_factor();
    bool divided = false;
    while (next() != nullptr) {
      if (begins_factor() && (divided || at_ == mixed_end_)) return fail(Unreadable::unsupported);
      if (begins_factor() || take("*")) {
        result = make(Operation::multiply, std::move(result), signed_factor());
        divided = false;
      } else if (take("/")) {
        result = make(Operation::divide, std::move(result), signed_factor());
        divided = true;
      } else {
        break;
      }
    }
    return result;
  }

  Expression signed_factor() { return take("-") ? make(Operation::negate, factor()) : factor(); }

  // Two numbers side by side are no product.
  bool begins_factor() const {
    if (is(Token::Kind::number)) return at_ > 0 && tokens_[at_ - 1].kind != Token::Kind::number;
    return is(Token::Kind::name) || is(Token::Kind::function) || is("(") || is("{") || is("[") || (is("|") && !in_bars_) ||
           is("\\frac") || is("\\sqrt") || is("\\pi") || is("\\binom") || is("\\infty");
  }

  Expression factor() {
    Expression base = primary();
    while (take("!")) base = make(Operation::factorial, std::move(base));
    if (take("^")) base = make(Operation::power, std::move(base), exponent());
    while (take("!")) base = make(Operation::factorial, std::move(base));
    if (take("%")) base = make(Operation::divide, std::move(base), number("100"));
    return base;
  }

  Expression exponent() {
    if (take("-")) return make(Operation::negate, exponent());
    Expression base = is("{") ? braces() : primary();
    if (take("^")) return make(Operation::power, std::move(base), exponent());
    return base;
  }

  Expression braces() {
    expect("{");
    Expression inside = sum();
    expect("}");
    return inside;
  }

  // An argument, as \frac12 and \sqrt3 have them: braces, or one digit or letter.
  Expression argument() {
    if (is("{")) return braces();
    if (is(Token::Kind::number)) {
      Token& digits = tokens_[at_];
      Expression first = number(digits.text.substr(0, 1));
      digits.text.erase(0, 1);
      if (digits.text.empty()) ++at_;
      return digits.text.starts_with('.') ? fail(Unreadable::malformed) : first;
    }
    return primary();
  }

  Expression primary() {
    if (++depth_ > deepest_expression) return fail(Unreadable::unsupported);
    Expression made = read_primary();
    --depth_;
    return made;
  }

  Expression read_primary() {
    if (next() == nullptr) return fail(Unreadable::malformed);
    const Token token = *next();
    if (token.kind == Token::Kind::number) return read_number();
    if (token.kind == Token::Kind::function) return read_function();
    if (token.is("{")) return braces();
    ++at_;
    if (token.kind == Token::Kind::name) {
      if (token.text == "e") return make(Operation::euler);
      if (token.text == "i") return make(Operation::imaginary);
      return {Operation::name, token.text, {}};
    }
    if (token.is("(") || token.is("[")) {
      const bool bars = std::exchange(in_bars_, false);
      Expression inside = sum();
      expect(token.is("(") ? ")" : "]");
      in_bars_ = bars;
      return inside;
    }
    if (token.is("|")) {
      const bool bars = std::exchange(in_bars_, true);
      Expression inside = sum();
      expect("|");
      in_bars_ = bars;
      return make(Operation::absolute, std::move(inside));
    }
    if (token.is("\\frac")) {
      Expression above = argument();
      return make(Operation::divide, std::move(above), argument());
    }
    if (token.is("\\binom")) {
      Expression above = argument();
      return make(Operation::binomial, std::move(above), argument());
    }
    if (token.is("\\sqrt")) return read_root();
    if (token.is("\\pi")) return make(Operation::pi);
    if (token.is("\\infty")) return {Operation::name, "∞", {}};
    return fail(token.kind == Token::Kind::command || token.kind == Token::Kind::word ? Unreadable::unsupported
                                                                                        : Unreadable::malformed);
  }

  Expression read_root() {
    Expression degree = number("2");
    if (take("[")) {
      degree = sum();
      expect("]");
    }
    Expression inside = argument();
    return make(Operation::root, std::move(inside), std::move(degree));
  }

  // With what makes it a mixed one: 1\frac{1}{2}, 1 1/2. 0.\overline{3} is the repeated third.
  Expression read_number() {
    Expression whole = number(tokens_[at_++].text);
    if (is("\\overline")) return read_repeated(std::move(whole));
    if (whole.text.find_first_of(".e") != std::string::npos) return whole;
    if (is("\\frac") && is_simple_fraction()) {
      ++at_;
      Expression above = argument();
      Expression below = argument();
      mixed_end_ = at_;
      return make(Operation::add, std::move(whole), make(Operation::divide, std::move(above), std::move(below)));
    }
    const bool slash = at_ + 2 < tokens_.size() && is(Token::Kind::number) && next()->after_blank &&
                       tokens_[at_ + 1].is("/") && tokens_[at_ + 2].kind == Token::Kind::number;
    if (!slash) return whole;
    Expression above = number(next()->text), below = number(tokens_[at_ + 2].text);
    mixed_end_ = at_ += 3;
    return make(Operation::add, std::move(whole), make(Operation::divide, std::move(above), std::move(below)));
  }

  // \frac12, \frac{1}{2}: of numbers alone.
  bool is_simple_fraction() const {
    for (std::size_t i = at_ + 1, parts = 0; i < tokens_.size() && parts < 4; ++i) {
      if (tokens_[i].kind == Token::Kind::number) {
        parts += tokens_[i].text.size() > 1 && !tokens_[i - 1].is("{") ? 4u : 2u;
        if (parts >= 4) return true;
      } else if (!tokens_[i].is("{") && !tokens_[i].is("}")) {
        return false;
      }
    }
    return false;
  }

  Expression read_repeated(Expression start) {
    ++at_;
    expect("{");
    const std::string repeated = is(Token::Kind::number) ? tokens_[at_++].text : std::string();
    expect("}");
    const std::size_t point = start.text.find('.');
    if (repeated.empty() || repeated.find_first_not_of("0123456789") != std::string::npos || start.text.find('e') != std::string::npos)
      return fail(Unreadable::malformed);
    const std::size_t places = point == std::string::npos ? 0 : start.text.size() - point - 1;
    Expression period = number(std::string(repeated.size(), '9') + std::string(places, '0'));
    return make(Operation::add, std::move(start), make(Operation::divide, number(repeated), std::move(period)));
  }

  Expression read_function() {
    const std::string name = tokens_[at_++].text;
    if (name == "sqrt") return read_root();
    std::optional<Expression> base, power;
    if (name == "log" && take("_")) base = argument();
    if (take("^")) power = exponent();
    if (name == "log" && !base && take("_")) base = argument();
    if (name == "log" && !base) return fail(Unreadable::unsupported);  // of 10 to some, of e to others
    Expression result = applied(name, std::move(base), function_argument());
    return power ? make(Operation::power, std::move(result), std::move(*power)) : result;
  }

  // sin(2x) and sin 2x; after brackets it ends.
  Expression function_argument() {
    if (is("(") || is("{") || is("|")) return primary();
    Expression inside = factor();
    while (begins_factor() && !is(Token::Kind::function) && !is("("))
      inside = make(Operation::multiply, std::move(inside), factor());
    return inside;
  }

  static Expression applied(const std::string& name, std::optional<Expression> base, Expression inside) {
    const auto function = [](std::string text, Expression of) {
      return Expression{Operation::function, std::move(text), {std::move(of)}};
    };
    const auto inverse = [&](std::string text) {
      return make(Operation::divide, number("1"), function(std::move(text), std::move(inside)));
    };
    if (name == "sec") return inverse("cos");
    if (name == "csc") return inverse("sin");
    if (name == "cot") return inverse("tan");
    if (name == "exp") return make(Operation::power, make(Operation::euler), std::move(inside));
    if (name == "abs") return make(Operation::absolute, std::move(inside));
    if (name == "log")
      return make(Operation::divide, function("ln", std::move(inside)), function("ln", std::move(*base)));
    return function(name, std::move(inside));
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  std::size_t mixed_end_ = 0;  // behind the last mixed number
  int depth_ = 0;
  bool in_bars_ = false;
  std::optional<Unreadable> wrong_;
};

}  // namespace

std::variant<Expression, Unreadable> parse_expression(std::span<const Token> tokens) {
  return ExpressionParser(tokens).all();
}

}  // namespace muster::reward::math
