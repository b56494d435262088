#include "chat/text_format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "chat/attributes.hpp"
#include "chat/code_points.hpp"
#include "chat/evaluation.hpp"
#include "chat/python_text.hpp"

namespace muster::chat {
namespace {

constexpr std::size_t widest = 10'000;  // of one field

// One "%-08.3f" of a pattern.
struct Field {
  bool left = false, zeros = false, plus = false, space = false, alternate = false;
  std::size_t width = 0;
  std::optional<std::size_t> precision;
  char conversion = 's';
};

// The arguments of a pattern, one after the other.
class Supply {
 public:
  Supply(Evaluation& evaluation, const Value& arguments) : evaluation_(evaluation), single_(arguments) {
    const Sequence* tuple = arguments.sequence();
    if (tuple != nullptr && tuple->kind == Sequence::Kind::tuple) tuple_ = tuple;
  }
  Value next() {
    const std::size_t count = tuple_ ? tuple_->elements.size() : 1;
    if (used_ >= count) return evaluation_.fail("a format with too few arguments");
    ++used_;
    return tuple_ ? tuple_->elements[used_ - 1] : single_;
  }
  Value named(const std::string& name) {
    used_ = 1;
    const Dictionary* mapping = single_.dictionary();
    const Value* found = mapping ? mapping->find_text(name) : nullptr;
    return found ? *found : evaluation_.fail(fmt::format("a format asks for '{}', which is not given", name));
  }
  // Whatever has elements, except for tuples and texts, may be left unused.
  bool is_used_up() const {
    if (tuple_) return used_ == tuple_->elements.size();
    return used_ == 1 || single_.dictionary() || single_.is_undefined() ||
           (single_.sequence() && single_.sequence()->is_indexed());
  }

 private:
  Evaluation& evaluation_;
  const Value& single_;
  const Sequence* tuple_ = nullptr;
  std::size_t used_ = 0;
};

std::size_t read_count(std::string_view pattern, std::size_t& at) {
  std::size_t count = 0;
  while (at < pattern.size() && pattern[at] >= '0' && pattern[at] <= '9' && count <= widest)
    count = count * 10 + static_cast<std::size_t>(pattern[at++] - '0');
  return count;
}

Field read_field(std::string_view pattern, std::size_t& at) {
  Field field;
  for (bool flag = true; flag && at < pattern.size();) {
    const char letter = pattern[at];
    field.left |= letter == '-';
    field.zeros |= letter == '0';
    field.plus |= letter == '+';
    field.space |= letter == ' ';
    field.alternate |= letter == '#';
    flag = std::string_view("-0+ #").find(letter) != std::string_view::npos;
    if (flag) ++at;
  }
  field.width = read_count(pattern, at);
  if (at < pattern.size() && pattern[at] == '.') field.precision = read_count(pattern, ++at);
  field.conversion = at < pattern.size() ? pattern[at++] : '\0';
  return field;
}

std::string padded(const Field& field, std::string sign, std::string body, bool number) {
  const std::size_t length = count_code_points(sign) + count_code_points(body);
  const std::size_t missing = field.width > length ? field.width - length : 0;
  if (field.left) return sign + body + std::string(missing, ' ');
  if (field.zeros && number) return sign + std::string(missing, '0') + body;
  return std::string(missing, ' ') + sign + body;
}

std::string sign_of(const Field& field, bool negative) {
  if (negative) return "-";
  return field.plus ? "+" : field.space ? " " : "";
}

std::string exponent_text(double number, std::size_t precision, char conversion, bool alternate) {
  std::string text;
  switch (conversion) {
    case 'e':
      text = fmt::format("{:.{}e}", number, precision);
      break;
    case 'E':
      text = fmt::format("{:.{}E}", number, precision);
      break;
    case 'g':
      text = alternate ? fmt::format("{:#.{}g}", number, precision) : fmt::format("{:.{}g}", number, precision);
      break;
    case 'G':
      text = alternate ? fmt::format("{:#.{}G}", number, precision) : fmt::format("{:.{}G}", number, precision);
      break;
    default:
      text = fmt::format("{:.{}f}", number, precision);
  }
  return text;
}

Value format_float(Evaluation& evaluation, const Field& field, const Value& argument) {
  double number = 0;
  if (!to_number(argument, number)) return evaluation.fail("a format asks for a number, which is not given");
  const std::size_t precision = field.precision.value_or(6);
  if (precision > 300) return evaluation.fail("a format with too many places");
  std::string body = exponent_text(std::fabs(number), precision, field.conversion, field.alternate);
  return evaluation.text(padded(field, sign_of(field, std::signbit(number)), std::move(body), std::isfinite(number)));
}

Value format_integer(Evaluation& evaluation, const Field& field, const Value& argument) {
  Integer integer = 0;
  double number = 0;
  if (!to_integer(argument, integer)) {
    const bool decimal = field.conversion == 'd' || field.conversion == 'i' || field.conversion == 'u';
    if (!decimal || !to_number(argument, number) || !(std::fabs(number) < 1e37))
      return evaluation.fail("a format asks for an integer, which is not given");
    integer = static_cast<Integer>(number);
  }
  const bool negative = integer < 0;
  __extension__ using Magnitude = unsigned __int128;
  const Magnitude magnitude =
      negative ? Magnitude{0} - static_cast<Magnitude>(integer) : static_cast<Magnitude>(integer);
  std::string body, prefix;
  switch (field.conversion) {
    case 'x':
      body = fmt::format("{:x}", magnitude);
      prefix = "0x";
      break;
    case 'X':
      body = fmt::format("{:X}", magnitude);
      prefix = "0X";
      break;
    case 'o':
      body = fmt::format("{:o}", magnitude);
      prefix = "0o";
      break;
    default:
      body = fmt::format("{}", magnitude);
  }
  const std::size_t places = std::min(field.precision.value_or(0), widest);
  if (body.size() < places) body.insert(0, places - body.size(), '0');
  return evaluation.text(
      padded(field, sign_of(field, negative) + (field.alternate ? prefix : ""), std::move(body), true));
}

Value format_text(Evaluation& evaluation, const Field& field, const Value& argument, bool escaped) {
  std::string body;
  if (field.conversion == 's')
    body = evaluation.to_text(argument);
  else if (!append_repr(body, argument, evaluation.options().most_bytes))
    return evaluation.fail("the template makes too much text; it is refused");
  if (escaped && !argument.is_markup()) body = escape_html(body);
  if (field.precision) body.resize(byte_of_code_point(body, *field.precision));
  return evaluation.text(padded(field, "", std::move(body), false));
}

// A character, given as itself or by its code point.
Value format_character(Evaluation& evaluation, const Field& field, const Value& argument) {
  Integer point = 0;
  std::string body;
  if (argument.text() && count_code_points(*argument.text()) == 1)
    body = *argument.text();
  else if (to_integer(argument, point) && point >= 0 && point <= 0x10FFFF && (point < 0xD800 || point > 0xDFFF))
    append_code_point(body, static_cast<char32_t>(point));
  else
    return evaluation.fail("a format asks for one character, which is not given");
  return evaluation.text(padded(field, "", std::move(body), false));
}

Value format_field(Evaluation& evaluation, const Field& field, const Value& argument, bool escaped) {
  switch (field.conversion) {
    case 's':
    case 'r':
      return format_text(evaluation, field, argument, escaped);
    case 'c':
      return format_character(evaluation, field, argument);
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o':
      return format_integer(evaluation, field, argument);
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
      return format_float(evaluation, field, argument);
    default:
      return evaluation.fail(fmt::format("a format with '%{}', which is not known", field.conversion));
  }
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += letter;
    }
  }
  return out;
}

Value format_percent(Evaluation& evaluation, const Value& pattern, const Value& arguments) {
  const std::string& text = *pattern.text();
  Supply supply(evaluation, arguments);
  std::string out;
  for (std::size_t at = 0; at < text.size() && !evaluation.failed();) {
    if (text[at] != '%') {
      out += text[at++];
      continue;
    }
    if (++at < text.size() && text[at] == '%') {
      out += text[at++];
      continue;
    }
    std::optional<std::string> name;
    if (at < text.size() && text[at] == '(') {
      const std::size_t end = text.find(')', at);
      if (end == std::string::npos) return evaluation.fail("a format with a '(' that is not closed");
      name = text.substr(at + 1, end - at - 1);
      at = end + 1;
    }
    const Field field = read_field(text, at);
    if (field.width > widest || field.precision.value_or(0) > widest || field.conversion == '\0')
      return evaluation.fail("a format with a field that is incomplete or too wide");
    const Value argument = name ? supply.named(*name) : supply.next();
    const Value shown = evaluation.failed() ? Value() : format_field(evaluation, field, argument, pattern.is_markup());
    if (shown.text()) out += *shown.text();
  }
  if (!evaluation.failed() && !supply.is_used_up()) return evaluation.fail("a format with too many arguments");
  return evaluation.text(std::move(out), pattern.is_markup());
}

Value format_braces(Evaluation& evaluation, const Value& pattern, const Arguments& arguments) {
  const std::string& text = *pattern.text();
  std::string out;
  std::size_t position = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool doubled = at + 1 < text.size() && text[at + 1] == text[at];
    if (text[at] != '{' && text[at] != '}') {
      out += text[at];
    } else if (doubled) {
      out += text[at++];
    } else {
      const std::size_t end = text.find('}', at);
      if (text[at] == '}' || end == std::string::npos) return evaluation.fail("a format with a single brace");
      const std::string name = text.substr(at + 1, end - at - 1);
      if (name.find_first_of(":!.[{") != std::string::npos)
        return evaluation.fail(fmt::format("format's field {{{}}} is more than a name or a position", name));
      const bool numbered = !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
      const Value* found = nullptr;
      if (name.empty() || numbered) {
        const std::size_t index = numbered ? (name.size() < 6 ? std::stoul(name) : 999'999) : position++;
        if (index < arguments.positional.size()) found = &arguments.positional[index];
      } else {
        for (const auto& [known, value] : arguments.named)
          if (known == name) found = &value;
      }
      if (found == nullptr) return evaluation.fail(fmt::format("format has no argument for {{{}}}", name));
      std::string shown = evaluation.to_text(*found);
      if (!evaluation.charge_bytes(shown.size())) return {};
      out += pattern.is_markup() && !found->is_markup() ? escape_html(shown) : shown;
      at = end;
    }
  }
  return evaluation.text(std::move(out), pattern.is_markup());
}

}  // namespace muster::chat
