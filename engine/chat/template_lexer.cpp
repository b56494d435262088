#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "chat/code_points.hpp"
#include "chat/literals.hpp"
#include "chat/template_token.hpp"

namespace muster::chat {
namespace {

constexpr std::array<std::string_view, 26> token_symbols{"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                         "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                         ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

// Line ends become \n, and the last one goes.
std::string normalized(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') ++i;
    text.push_back(source[i] == '\r' ? '\n' : source[i]);
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

bool is_word(std::string_view rest) {
  const auto byte = static_cast<unsigned char>(rest.front());
  if (byte < 0x80) return std::isalnum(byte) != 0 || byte == '_';
  return !is_space(first_code_point(rest).value);
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : text_(normalized(source)) {}

  Tokens run() {
    while (!found_.failure && position_ < text_.size()) read_data();
    add(Token::Kind::end, "");
    return std::move(found_);
  }

 private:
  std::string_view rest() const { return std::string_view(text_).substr(position_); }

  void fail(std::string what) {
    if (!found_.failure) found_.failure = TemplateFailure{line_, std::move(what)};
    position_ = text_.size();
  }

  void add(Token::Kind kind, std::string word, Value value = {}) {
    found_.list.push_back({kind, line_, std::move(word), std::move(value)});
  }

  // Advances by this many bytes.
  void skip(std::size_t length) {
    const std::string_view passed = rest().substr(0, length);
    line_ += static_cast<int>(std::ranges::count(passed, '\n'));
    at_line_begin_ = passed.empty() ? at_line_begin_ : passed.back() == '\n';
    position_ += passed.size();
  }

  void skip_space() { skip(rest().size() - strip_left(rest()).size()); }

  // Text up to the next tag, then that tag.
  void read_data() {
    std::size_t tag = rest().find('{');
    while (tag != std::string_view::npos && (tag + 1 >= rest().size() || !is_tag(rest()[tag + 1])))
      tag = rest().find('{', tag + 1);
    if (tag == std::string_view::npos) {
      add(Token::Kind::data, std::string(rest()));
      return skip(rest().size());
    }
    const char kind = rest()[tag + 1];
    const char sign = tag + 2 < rest().size() ? rest()[tag + 2] : ' ';
    add_data(rest().substr(0, tag), sign, kind == '{');
    skip(tag + (sign == '-' || sign == '+' ? 3 : 2));
    if (kind == '#') return skip_comment();
    if (kind == '%' && read_raw()) return;
    add(kind == '{' ? Token::Kind::variable_begin : Token::Kind::block_begin, "");
    at_line_begin_ = false;
    while (!found_.failure && !read_tag_end(kind)) read_word(kind);
  }

  static bool is_tag(char next) { return next == '{' || next == '%' || next == '#'; }

  // "-" takes all white space before the tag; without a sign, blocks and comments take what indents them.
  void add_data(std::string_view data, char sign, bool variable) {
    if (sign == '-') {
      data = strip_right(data);
    } else if (sign != '+' && !variable) {
      const std::size_t begin = data.rfind('\n') + 1;  // 0 when there is none
      if ((begin > 0 || at_line_begin_) && strip_left(data.substr(begin)).empty()) data = data.substr(0, begin);
    }
    if (!data.empty()) add(Token::Kind::data, std::string(data));
  }

  // Whether a tag ends here with these characters, and if so moves past it and the white space it takes.
  bool skip_end(std::string_view end, bool trims_newline) {
    if (rest().starts_with('-') && rest().substr(1).starts_with(end)) {
      skip(1 + end.size());
      skip_space();
      return true;
    }
    if (trims_newline && rest().starts_with('+') && rest().substr(1).starts_with(end)) {
      skip(1 + end.size());
      return true;
    }
    if (!rest().starts_with(end)) return false;
    skip(end.size());
    if (trims_newline && rest().starts_with('\n')) skip(1);
    return true;
  }

  void skip_comment() {
    const std::size_t end = rest().find("#}");
    if (end == std::string_view::npos) return fail("a comment that is not closed: #} is missing");
    const bool signed_end = end > 0 && (rest()[end - 1] == '-' || rest()[end - 1] == '+');
    skip(end - (signed_end ? 1 : 0));
    skip_end("#}", true);
  }

  // {% raw %} … {% endraw %}, after its "{%" and sign: data as it stands.
  bool read_raw() {
    const std::size_t begin = position_;
    const int line = line_;
    const bool at_line_begin = at_line_begin_;
    skip_space();
    const bool raw = rest().starts_with("raw");
    if (raw) {
      skip(3);
      skip_space();
    }
    if (!raw || !(rest().starts_with("%}") || rest().starts_with("-%}"))) {
      position_ = begin;
      line_ = line;
      at_line_begin_ = at_line_begin;
      return false;
    }
    skip_end("%}", false);
    for (std::size_t tag = rest().find("{%"); tag != std::string_view::npos; tag = rest().find("{%", tag + 2))
      if (skip_raw_end(tag)) return true;
    fail("{% raw %} without {% endraw %}");
    return true;
  }

  bool skip_raw_end(std::size_t tag) {
    std::string_view after = rest().substr(tag + 2);
    const char sign = !after.empty() && (after[0] == '-' || after[0] == '+') ? after[0] : ' ';
    if (sign != ' ') after.remove_prefix(1);
    after = strip_left(after);
    if (!after.starts_with("endraw")) return false;
    after = strip_left(after.substr(6));
    if (!after.starts_with("%}") && !after.starts_with("-%}") && !after.starts_with("+%}")) return false;
    const std::size_t end = rest().size() - after.size();
    add_data(rest().substr(0, tag), sign, false);
    skip(end);
    return skip_end("%}", true);
  }

  bool read_tag_end(char kind) {
    if (!open_.empty()) return false;  // a bracket's "}}" does not end the tag
    const int line = line_;
    const bool block = kind == '%';
    if (!skip_end(block ? "%}" : "}}", block)) return false;
    found_.list.push_back({block ? Token::Kind::block_end : Token::Kind::variable_end, line, "", {}});
    return true;
  }

  void read_word(char kind) {
    if (position_ >= text_.size())
      return fail(fmt::format("a tag that is not closed: {} is missing", kind == '%' ? "%}" : "}}"));
    if (is_space(first_code_point(rest()).value)) return skip_space();
    if (std::isdigit(static_cast<unsigned char>(rest().front()))) return read_number();
    if (rest().front() == '"' || rest().front() == '\'') return read_text();
    if (is_word(rest())) return read_name();
    const auto symbol = std::ranges::find_if(token_symbols, [&](auto known) { return rest().starts_with(known); });
    if (symbol == token_symbols.end())
      return fail(fmt::format("a character that means nothing here: {}", rest().substr(0, 1)));
    balance(symbol->front());
    add(Token::Kind::symbol, std::string(*symbol));
    skip(symbol->size());
  }

  void balance(char symbol) {
    constexpr std::string_view opening = "([{", closing = ")]}";
    if (const auto kind = opening.find(symbol); kind != std::string_view::npos) open_.push_back(closing[kind]);
    if (closing.find(symbol) == std::string_view::npos) return;
    if (open_.empty()) return fail(fmt::format("'{}' closes nothing", symbol));
    if (open_.back() != symbol) return fail(fmt::format("'{}' where '{}' is expected", symbol, open_.back()));
    open_.pop_back();
  }

  void read_name() {
    std::size_t length = 0;
    while (length < rest().size() && is_word(rest().substr(length)))
      length += first_code_point(rest().substr(length)).length;
    add(Token::Kind::name, std::string(rest().substr(0, length)));
    skip(length);
  }

  void read_number() {
    const bool after_dot = !found_.list.empty() && found_.list.back().is(".") && text_[position_ - 1] == '.';
    const NumberLiteral literal = read_number_literal(rest(), !after_dot);
    if (!literal.failure.empty()) return fail(literal.failure);
    add(literal.value.number() ? Token::Kind::number : Token::Kind::integer,
        std::string(rest().substr(0, literal.length)), literal.value);
    skip(literal.length);
  }

  void read_text() {
    const char quote = rest().front();
    std::size_t end = 1;
    while (end < rest().size() && rest()[end] != quote) end += rest()[end] == '\\' ? 2U : 1U;
    if (end >= rest().size()) return fail("a string that is not closed");
    std::string what;
    auto text = unescaped(rest().substr(1, end - 1), what);
    if (!text) return fail(what);
    add(Token::Kind::text, std::move(*text));
    skip(end + 1);
  }

  std::string text_;
  std::size_t position_ = 0;
  int line_ = 1;
  bool at_line_begin_ = true;
  std::string open_;  // the closing brackets to come
  Tokens found_;
};

}  // namespace

Tokens read_tokens(std::string_view source) {
  if (!is_utf8(source)) return {{Token{}}, TemplateFailure{1, "the template is not valid UTF-8"}};
  return Lexer(source).run();
}

}  // namespace muster::chat
