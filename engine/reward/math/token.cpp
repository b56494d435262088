#include "reward/math/token.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "reward/math/character_class.hpp"

namespace muster::reward::math {
namespace {

constexpr std::array<std::string_view, 17> function_names{"sin",  "cos",  "tan",    "sec",    "csc",    "cot",
                                                          "sinh", "cosh", "tanh",   "arcsin", "arccos", "arctan",
                                                          "ln",   "log",  "exp",    "sqrt",   "abs"};
constexpr std::array<std::string_view, 26> greek{
    "alpha", "beta",  "gamma", "delta", "epsilon", "varepsilon", "zeta", "eta",   "theta",  "iota",   "kappa", "lambda", "mu",
    "nu",    "xi",    "rho",   "sigma", "tau",     "phi",        "chi",  "varphi", "psi",   "omega",  "Gamma", "Delta",  "Omega"};
// Commands whose argument is text, or a variable in another type.
constexpr std::array<std::string_view, 11> texts{"text",   "textbf", "textit", "textrm",       "mathrm", "mathbf",
                                                 "mathit", "mbox",   "boldsymbol", "operatorname", "mathbb"};
constexpr std::array<std::string_view, 18> units{"cm", "mm", "km", "kg", "mg", "ml", "ft",  "in",  "yd",
                                                 "mi", "hr", "lb", "oz", "pt", "sq", "min", "sec", "hrs"};

bool holds(const auto& list, std::string_view word) { return std::ranges::find(list, word) != list.end(); }

class Tokenizer {
 public:
  explicit Tokenizer(std::string_view text) : text_(text) {}

  std::optional<std::vector<Token>> all() {
    while (skip_blanks(), at_ < text_.size()) {
      const char c = text_[at_];
      if (is_digit(c) || (c == '.' && is_digit(peek(1))))
        take_number();
      else if (is_letter(c))
        take_letters(run([](char d) { return is_letter(d); }));
      else if (c == '\\')
        take_command();
      else if (std::string_view("+-*/^()[]{}|,;!%_&=<>:'").find(c) != std::string_view::npos)
        put(Token::Kind::sign, std::string(1, text_[at_++]));
      else
        return std::nullopt;
    }
    return std::move(tokens_);
  }

 private:
  char peek(std::size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  void skip_blanks() {
    blank_ = false;
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) {
      blank_ = true;
      ++at_;
    }
  }

  std::string run(auto belongs) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && belongs(text_[at_])) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  void put(Token::Kind kind, std::string text) {
    if (kind == Token::Kind::sign && (text == "(" || text == "[")) ++depth_;
    if (kind == Token::Kind::sign && (text == ")" || text == "]")) --depth_;
    tokens_.push_back({kind, std::move(text), blank_});
  }

  bool digits_ahead(std::size_t ahead, std::size_t count) const {
    for (std::size_t i = 0; i < count; ++i)
      if (!is_digit(peek(ahead + i))) return false;
    return !is_digit(peek(ahead + count));
  }

  // Within brackets a comma separates: (1,234) has two parts.
  void take_number() {
    std::string digits = run(is_digit);
    if (depth_ == 0 && !digits.empty() && digits.size() <= 3 && digits != "0")
      while ((peek(0) == ',' || peek(0) == ' ') && digits_ahead(1, 3)) {
        ++at_;
        digits += run(is_digit);
      }
    if (peek(0) == '.') {
      ++at_;
      digits += "." + run(is_digit);
      if (digits.ends_with('.')) digits.pop_back();
    }
    const bool signed_exponent = (peek(1) == '-' || peek(1) == '+') && is_digit(peek(2));
    if ((peek(0) == 'e' || peek(0) == 'E') && (is_digit(peek(1)) || signed_exponent)) {
      at_ += signed_exponent ? 2 : 1;
      const bool negative = signed_exponent && text_[at_ - 1] == '-';
      digits += (negative ? "e-" : "e") + run(is_digit);
    }
    if (digits.starts_with('.')) digits.insert(0, "0");
    put(Token::Kind::number, std::move(digits));
  }

  // "sin", "abc" for a·b·c, "apples".
  void take_letters(const std::string& letters) {
    const bool behind_number = blank_ && !tokens_.empty() && tokens_.back().kind == Token::Kind::number;
    if (holds(function_names, letters)) return put(Token::Kind::function, letters);
    if (letters == "pi" || letters == "infty") return put(Token::Kind::command, "\\" + letters);
    if (letters == "infinity" || letters == "Infinity" || letters == "inf") return put(Token::Kind::command, "\\infty");
    if (letters == "or" || letters == "and") return put(Token::Kind::sign, ",");
    if (letters.size() > 3 || (behind_number && holds(units, letters)))
      return put(Token::Kind::word, letters);
    for (const char letter : letters) {
      put(Token::Kind::name, std::string(1, letter));
      blank_ = false;
    }
    take_subscript();
  }

  // x_1, x_{10}, a_n; the prime of x' is refused with its character.
  void take_subscript() {
    if (peek(0) != '_' || tokens_.back().kind != Token::Kind::name) return;
    const std::size_t begin = at_ + 1;
    std::size_t size = 1;
    if (peek(1) == '{') {
      const std::size_t end = text_.find('}', begin);
      if (end == std::string_view::npos) return;
      size = end - begin + 1;
    }
    std::string_view subscript = text_.substr(begin, size);
    if (subscript.starts_with('{')) subscript = subscript.substr(1, subscript.size() - 2);
    if (!std::ranges::all_of(subscript, [](char c) { return is_digit(c) || is_letter(c); })) return;
    tokens_.back().text += "_" + std::string(subscript);
    at_ = begin + size;
  }

  void take_command() {
    ++at_;
    if (!is_letter(peek(0))) {  // \{ \} and the new row \\.
      put(Token::Kind::sign, "\\" + std::string(1, peek(0)));
      at_ = std::min(at_ + 1, text_.size());
      return;
    }
    const std::string name = run([](char c) { return is_letter(c); });
    if (holds(texts, name) && peek(0) == '{') return take_text();
    if (holds(function_names, name) && name != "sqrt") return put(Token::Kind::function, name);
    if (holds(greek, name)) {
      put(Token::Kind::name, "\\" + name);
      return take_subscript();
    }
    if (name == "begin" || name == "end") {
      std::string environment = run([](char c) { return c != '}'; });
      if (peek(0) == '}') ++at_;
      return put(Token::Kind::command, "\\" + name + environment + "}");
    }
    put(Token::Kind::command, "\\" + name);
  }

  void take_text() {
    const std::size_t end = std::min(text_.find('}', at_), text_.size());
    const std::string_view content = trim(text_.substr(at_ + 1, end - at_ - 1));
    at_ = std::min(end + 1, text_.size());
    if (content.empty()) return;
    if (content == "or" || content == "and" || content == ",") return put(Token::Kind::sign, ",");
    if (content.size() == 1 && is_letter(content.front())) return put(Token::Kind::name, std::string(content));
    if (content.size() <= 3 && std::ranges::all_of(content, [](char c) { return c == '(' || c == ')' || is_letter(c); }) &&
        content.front() == '(' && content.back() == ')')
      return put(Token::Kind::name, std::string(content.substr(1, content.size() - 2)));
    if (holds(function_names, content)) return put(Token::Kind::function, std::string(content));
    put(Token::Kind::word, to_lower(content));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool blank_ = false;
  std::vector<Token> tokens_;
};

}  // namespace

std::optional<std::vector<Token>> tokens_of(std::string_view cleaned) { return Tokenizer(cleaned).all(); }

}  // namespace muster::reward::math
