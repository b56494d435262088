#include "reward/math/form.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "base/text.hpp"

namespace muster::reward::math {
namespace {

using Tokens = std::span<const Token>;
using Parsed = std::variant<Form, Unreadable>;

constexpr std::array<std::string_view, 6> relation_signs{"=", "<", ">", "\\le", "\\ge", "\\ne"};
constexpr int deepest_form = 8;

bool opens(const Token& token) { return token.is("(") || token.is("[") || token.is("{") || token.is("\\{"); }
bool closes(const Token& token) { return token.is(")") || token.is("]") || token.is("}") || token.is("\\}"); }

// The parts between separators that stand outside of all brackets, and the separators.
struct Split {
  std::vector<Tokens> parts;
  std::vector<std::string> separators;
};

Split split_outside(Tokens tokens, auto separates) {
  Split split;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (opens(tokens[i]) || tokens[i].text.starts_with("\\begin")) ++depth;
    if (closes(tokens[i]) || tokens[i].text.starts_with("\\end")) --depth;
    if (depth != 0 || !separates(tokens[i])) continue;
    split.parts.push_back(tokens.subspan(begin, i - begin));
    split.separators.push_back(tokens[i].text);
    begin = i + 1;
  }
  split.parts.push_back(tokens.subspan(begin));
  return split;
}

bool is_separator(const Token& token) { return token.is(",") || token.is(";"); }
bool is_relation(const Token& token) { return std::ranges::any_of(relation_signs, [&](auto sign) { return token.is(sign); }); }
bool is_plus_minus(const Token& token) { return token.is("\\pm") || token.is("\\mp"); }

Parsed parse_tokens(Tokens tokens, int depth);

// All parts, each a form; empty ones have no place.
std::variant<std::vector<Form>, Unreadable> parse_parts(const std::vector<Tokens>& parts, int depth) {
  std::vector<Form> items;
  for (const Tokens part : parts) {
    Parsed item = parse_tokens(part, depth + 1);
    if (const auto* why = std::get_if<Unreadable>(&item)) return *why;
    Form& form = std::get<Form>(item);
    if (form.is_bare())  // 1, ±2 is 1, 2, -2
      std::ranges::move(form.items, std::back_inserter(items));
    else
      items.push_back(std::move(form));
  }
  return items;
}

Parsed with_parts(Form form, const std::vector<Tokens>& parts, int depth) {
  auto items = parse_parts(parts, depth);
  if (const auto* why = std::get_if<Unreadable>(&items)) return *why;
  form.items = std::move(std::get<std::vector<Form>>(items));
  return form;
}

Parsed parse_both_signs(Tokens tokens, int depth) {
  std::vector<Token> upper(tokens.begin(), tokens.end()), lower = upper;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (!is_plus_minus(tokens[i])) continue;
    const bool plus_first = tokens[i].is("\\pm");
    upper[i] = {Token::Kind::sign, plus_first ? "+" : "-"};
    lower[i] = {Token::Kind::sign, plus_first ? "-" : "+"};
  }
  return with_parts({.kind = Form::Kind::group}, {upper, lower}, depth);
}

// x, f(x), a_1: names and brackets.
bool only_names(Tokens tokens) {
  return !tokens.empty() && tokens.front().kind == Token::Kind::name &&
         std::ranges::all_of(tokens, [](const Token& token) {
           return token.kind == Token::Kind::name || token.is("(") || token.is(")") || token.is(",");
         });
}

Parsed parse_relation(const Split& split, int depth) {
  Form form{.kind = Form::Kind::relation};
  form.signs = split.separators;
  form.assigns = only_names(split.parts.front()) &&
                 std::ranges::all_of(form.signs, [](const std::string& sign) { return sign == "="; });
  if (form.assigns)
    for (const Token& token : split.parts.front()) form.text += token.text;
  std::vector<Tokens> parts = split.parts;
  if (parts.front().empty()) return parse_tokens(parts.back(), depth + 1);  // "= 5"
  return with_parts(std::move(form), parts, depth);
}

Parsed parse_matrix(Tokens tokens, int depth) {
  const std::string& environment = tokens.front().text;
  if (!environment.ends_with("matrix}") || !tokens.back().text.starts_with("\\end")) return Unreadable::unsupported;
  Form form{.kind = Form::Kind::matrix};
  for (const Tokens row : split_outside(tokens.subspan(1, tokens.size() - 2), [](const Token& t) { return t.is("\\\\"); }).parts) {
    if (row.empty()) continue;
    Parsed cells = with_parts({.kind = Form::Kind::group, .open = "(", .close = ")"}, split_outside(row, [](const Token& t) { return t.is("&"); }).parts, depth);
    if (const auto* why = std::get_if<Unreadable>(&cells)) return *why;
    form.items.push_back(std::move(std::get<Form>(cells)));
  }
  return form;
}

// Whether the first bracket is closed by the last token.
bool is_enclosed(Tokens tokens) {
  if (tokens.size() < 2 || !opens(tokens.front()) || !closes(tokens.back())) return false;
  int depth = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (opens(tokens[i])) ++depth;
    if (closes(tokens[i]) && --depth == 0) return i + 1 == tokens.size();
  }
  return false;
}

std::optional<Parsed> parse_group(Tokens tokens, int depth) {
  if (!is_enclosed(tokens)) return std::nullopt;
  const Tokens inside = tokens.subspan(1, tokens.size() - 2);
  const std::vector<Tokens> parts = split_outside(inside, is_separator).parts;
  const bool set = tokens.front().is("\\{");
  if (!set && parts.size() < 2) return std::nullopt;
  Form form{.kind = Form::Kind::group, .open = tokens.front().text, .close = tokens.back().text};
  if (form.open == "{") form.open = "\\{";
  if (form.close == "}") form.close = "\\}";
  if (inside.empty()) return form;
  return with_parts(std::move(form), parts, depth);
}

// 12.5%, -3 1/2 percent: of a number alone.
bool is_percentage(Tokens tokens) {
  if (tokens.size() < 2 || !(tokens.back().is("%") || tokens.back().text == "percent")) return false;
  const Tokens rest = tokens.subspan(tokens.front().is("-") ? 1 : 0);
  return std::ranges::all_of(rest.first(rest.size() - 1), [](const Token& token) {
    return token.kind == Token::Kind::number || token.is("\\frac") || token.is("{") || token.is("}") || token.is("/");
  });
}

Parsed parse_value(Tokens tokens) {
  Form form;
  form.percent = is_percentage(tokens);
  if (form.percent) tokens = tokens.first(tokens.size() - 1);
  auto expression = parse_expression(tokens);
  if (const auto* why = std::get_if<Unreadable>(&expression)) return *why;
  form.value = std::move(std::get<Expression>(expression));
  const Expression& bare = form.value.operation == Operation::negate ? form.value.operands[0] : form.value;
  const std::size_t point = bare.text.find('.');
  if (bare.operation == Operation::number && point != std::string::npos && bare.text.find('e') == std::string::npos)
    form.decimals = bare.text.size() - point - 1;
  return form;
}

Parsed parse_tokens(Tokens tokens, int depth) {
  if (tokens.empty()) return Unreadable::malformed;
  if (depth > deepest_form) return Unreadable::unsupported;
  if (std::ranges::all_of(tokens, [](const Token& token) { return token.kind == Token::Kind::word; })) {
    Form words{.kind = Form::Kind::words};
    for (const Token& token : tokens) words.text += to_lower(token.text);
    return words;
  }
  if (tokens.size() == 1 && tokens.front().is("\\emptyset"))
    return Form{.kind = Form::Kind::group, .open = "\\{", .close = "\\}"};
  if (const Split list = split_outside(tokens, is_separator); list.parts.size() > 1)
    return with_parts({.kind = Form::Kind::group}, list.parts, depth);
  if (const Split member = split_outside(tokens, [](const Token& t) { return t.is("\\in"); }); member.parts.size() == 2)
    return parse_tokens(member.parts[1], depth + 1);  // x ∈ [0, 1]
  if (std::ranges::any_of(tokens, is_plus_minus)) return parse_both_signs(tokens, depth);
  if (const Split joined = split_outside(tokens, [](const Token& t) { return t.is("\\cup"); }); joined.parts.size() > 1)
    return with_parts({.kind = Form::Kind::several}, joined.parts, depth);
  if (const Split sides = split_outside(tokens, is_relation); sides.parts.size() > 1) return parse_relation(sides, depth);
  if (tokens.front().text.starts_with("\\begin")) return parse_matrix(tokens, depth);
  if (auto group = parse_group(tokens, depth)) return std::move(*group);
  return parse_value(tokens);
}

}  // namespace

std::variant<Form, Unreadable> parse_form(std::string_view cleaned) {
  const auto tokens = tokens_of(cleaned);
  if (!tokens) return Unreadable::malformed;
  return parse_tokens(*tokens, 0);
}

}  // namespace muster::reward::math
