#include "chat/literals.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/text.hpp"
#include "chat/code_points.hpp"

namespace muster::chat {
namespace {

bool is_digit(char character, int base) {
  const int value = std::isdigit(static_cast<unsigned char>(character)) ? character - '0'
                    : std::isalpha(static_cast<unsigned char>(character))
                        ? std::tolower(static_cast<unsigned char>(character)) - 'a' + 10
                        : 99;
  return value < base;
}

// How many characters of text are digits, single underscores between them included.
std::size_t digits(std::string_view text, int base) {
  std::size_t length = 0;
  while (length < text.size()) {
    const bool joined =
        text[length] == '_' && length > 0 && length + 1 < text.size() && is_digit(text[length + 1], base);
    if (!is_digit(text[length], base) && !joined) break;
    length += joined ? 2 : 1;
  }
  return length;
}

std::string without_underscores(std::string_view text) {
  std::string plain(text);
  std::erase(plain, '_');
  return plain;
}

bool to_integer_value(std::string_view plain, int base, Integer& integer) {
  integer = 0;
  for (const char digit : plain) {
    const int value = std::isdigit(static_cast<unsigned char>(digit))
                          ? digit - '0'
                          : std::tolower(static_cast<unsigned char>(digit)) - 'a' + 10;
    if (__builtin_mul_overflow(integer, Integer{base}, &integer)) return false;
    if (__builtin_add_overflow(integer, Integer{value}, &integer)) return false;
  }
  return !plain.empty();
}

// from_chars does not convert a value that is out of range; Python takes it as infinite, or as zero.
double to_double(const std::string& plain) {
  double number = 0;
  const auto [end, failure] = std::from_chars(plain.data(), plain.data() + plain.size(), number);
  if (failure != std::errc::result_out_of_range) return number;
  const std::size_t exponent = plain.find_first_of("eE");
  const bool small = exponent != std::string::npos && plain.find('-', exponent) != std::string::npos;
  return small ? 0 : std::numeric_limits<double>::infinity();
}

// ".5" and "e-3" after the digits of a float; 0 when there is neither.
std::size_t fraction_length(std::string_view text) {
  std::size_t length = 0;
  if (text.starts_with('.')) {
    const std::size_t places = digits(text.substr(1), 10);
    if (places == 0) return 0;
    length = 1 + places;
  }
  if (length < text.size() && (text[length] == 'e' || text[length] == 'E')) {
    std::size_t sign = length + 1;
    if (sign < text.size() && (text[sign] == '+' || text[sign] == '-')) ++sign;
    const std::size_t places = sign < text.size() ? digits(text.substr(sign), 10) : 0;
    if (places > 0) length = sign + places;
  }
  return length;
}

int base_of(char letter) {
  switch (std::tolower(static_cast<unsigned char>(letter))) {
    case 'x':
      return 16;
    case 'o':
      return 8;
    case 'b':
      return 2;
    default:
      return 10;
  }
}

NumberLiteral integer_literal(std::string_view text, std::size_t prefix, std::size_t length, int base) {
  Integer integer = 0;
  if (!to_integer_value(without_underscores(text.substr(prefix, length)), base, integer))
    return {{}, 0, "a number of more than 127 bits"};
  return {integer, prefix + length, ""};
}

// The code point that this many hexadecimal digits stand for.
std::optional<char32_t> hexadecimal(std::string_view text, std::size_t length) {
  if (text.size() < length) return std::nullopt;
  char32_t value = 0;
  for (const char digit : text.substr(0, length)) {
    if (!is_digit(digit, 16)) return std::nullopt;
    Integer one = 0;
    to_integer_value(std::string_view(&digit, 1), 16, one);
    value = value * 16 + static_cast<char32_t>(one);
  }
  return value;
}

// Resolves the escape at the beginning of text, after its backslash: how many characters it takes, 0 when it is wrong.
std::size_t escape(std::string_view text, std::string& out) {
  constexpr std::string_view letters = "abfnrtv\\'\"", meanings = "\a\b\f\n\r\t\v\\'\"";
  const char letter = text.front();
  if (letter == '\n') return 1;
  if (const auto at = letters.find(letter); at != std::string_view::npos) {
    out.push_back(meanings[at]);
    return 1;
  }
  if (letter == 'x' || letter == 'u' || letter == 'U') {
    const std::size_t length = letter == 'x' ? 2 : letter == 'u' ? 4 : 8;
    const auto value = hexadecimal(text.substr(1), length);
    if (!value || *value > 0x10FFFF || (*value >= 0xD800 && *value < 0xE000)) return 0;
    append_code_point(out, *value);
    return 1 + length;
  }
  if (is_digit(letter, 8)) {
    std::size_t length = 1;
    while (length < 3 && length < text.size() && is_digit(text[length], 8)) ++length;
    Integer value = 0;
    to_integer_value(text.substr(0, length), 8, value);
    append_code_point(out, static_cast<char32_t>(value));
    return length;
  }
  if (letter == 'N') return 0;
  out.push_back('\\');
  return std::string::npos;  // not an escape: the backslash stays
}

}  // namespace

NumberLiteral read_number_literal(std::string_view text, bool fractions) {
  const std::size_t whole = digits(text, 10);
  if (fractions) {
    const std::size_t fraction = fraction_length(text.substr(whole));
    if (fraction > 0) return {to_double(without_underscores(text.substr(0, whole + fraction))), whole + fraction, ""};
  }
  if (text.size() > 2 && text[0] == '0' && base_of(text[1]) != 10) {
    const int base = base_of(text[1]);
    const std::size_t skipped = text[2] == '_' ? 3 : 2;
    const std::size_t length = skipped < text.size() ? digits(text.substr(skipped), base) : 0;
    if (length > 0) return integer_literal(text, skipped, length, base);
  }
  if (text[0] == '0') {  // zeros only: "012" is not a number
    std::size_t zeros = 1;
    while (zeros < whole && (text[zeros] == '0' || text[zeros] == '_')) ++zeros;
    return integer_literal(text, 0, zeros, 10);
  }
  return integer_literal(text, 0, whole, 10);
}

std::optional<std::string> unescaped(std::string_view text, std::string& what) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out.push_back(text[i]);
      continue;
    }
    const std::size_t taken = escape(text.substr(i + 1), out);
    if (taken == 0) {
      what = "an escape in a string that is incomplete or not known: \\" + std::string(text.substr(i + 1, 1));
      return std::nullopt;
    }
    if (taken != std::string::npos) i += taken;
  }
  return out;
}

bool parse_integer(std::string_view text, int base, Integer& integer) {
  text = strip_left(strip_right(text));
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  if (text.size() > 2 && text[0] == '0' && base_of(text[1]) == base && base != 10) text.remove_prefix(2);
  if (text.empty() || digits(text, base) != text.size()) return false;
  if (!to_integer_value(without_underscores(text), base, integer)) return false;
  if (negative) integer = -integer;
  return true;
}

bool parse_float(std::string_view text, double& number) {
  text = strip_left(strip_right(text));
  double sign = 1;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    sign = text[0] == '-' ? -1 : 1;
    text.remove_prefix(1);
  }
  const std::string word = to_lower(text);
  if (word == "inf" || word == "infinity" || word == "nan") {
    number =
        sign * (word == "nan" ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity());
    return true;
  }
  const std::size_t whole = digits(text, 10);
  std::string_view rest = text.substr(whole);
  if (whole == 0 && !rest.starts_with('.')) return false;
  const std::size_t fraction = fraction_length(rest);
  const bool dot_only = whole > 0 && rest.starts_with('.') && fraction == 0;  // "1."
  const std::size_t dot = dot_only ? 1 : 0;
  const std::size_t exponent = dot_only ? fraction_length(rest.substr(1)) : fraction;
  if (dot_only && rest.size() > 1 && rest[1] == '.') return false;
  if (whole + dot + exponent != text.size() || (whole == 0 && fraction == 0)) return false;
  std::string plain = without_underscores(text);
  if (dot_only) plain.erase(plain.find('.'), 1);
  number = sign * to_double(plain.starts_with('.') ? "0" + plain : plain);
  return true;
}

}  // namespace muster::chat
