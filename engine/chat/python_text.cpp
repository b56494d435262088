#include "chat/python_text.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "chat/code_points.hpp"
#include "chat/letters.hpp"
#include "chat/object.hpp"

namespace muster::chat {
namespace {

// "1234" and the place of the point become Python's notation.
std::string positional(std::string_view digits, int exponent) {
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    std::string text(1, digits.front());
    if (count > 1) text.append(".").append(digits.substr(1));
    return text + fmt::format("e{}{:02d}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + std::string(digits);
  if (exponent + 1 >= count)
    return std::string(digits) + std::string(static_cast<std::size_t>(exponent + 1 - count), '0') + ".0";
  const auto point = static_cast<std::size_t>(exponent + 1);
  return std::string(digits.substr(0, point)) + "." + std::string(digits.substr(point));
}

bool append_elements(std::string& out, const std::vector<Value>& elements, std::size_t most) {
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (i > 0) out += ", ";
    if (!append_repr(out, elements[i], most)) return false;
  }
  return true;
}

bool append_sequence(std::string& out, const Sequence& sequence, std::size_t most) {
  std::string_view open = "[", close = "]";
  switch (sequence.kind) {
    case Sequence::Kind::list:
      break;
    case Sequence::Kind::tuple:
      open = "(";
      close = sequence.elements.size() == 1 ? ",)" : ")";
      break;
    case Sequence::Kind::keys:
      open = "dict_keys([";
      close = "])";
      break;
    case Sequence::Kind::values:
      open = "dict_values([";
      close = "])";
      break;
    case Sequence::Kind::items:
      open = "dict_items([";
      close = "])";
      break;
    case Sequence::Kind::range:
      out += fmt::format("range({}, {}", sequence.start, sequence.stop);
      out += sequence.step == 1 ? ")" : fmt::format(", {})", sequence.step);
      return true;
    case Sequence::Kind::generator:
      out += "<generator>";
      return true;
  }
  out += open;
  if (!append_elements(out, sequence.elements, most)) return false;
  out += close;
  return true;
}

bool append_dictionary(std::string& out, const Dictionary& dictionary, std::size_t most) {
  out += '{';
  bool first = true;
  for (const auto& [key, value] : dictionary.entries()) {
    if (!first) out += ", ";
    first = false;
    if (!append_repr(out, key, most)) return false;
    out += ": ";
    if (!append_repr(out, value, most)) return false;
  }
  out += '}';
  return true;
}

void append_escaped(std::string& out, std::string_view character, char quote) {
  const char32_t value = first_code_point(character).value;
  if (value == static_cast<char32_t>(quote) || value == '\\')
    out.append("\\").append(character);
  else if (value == '\n')
    out += "\\n";
  else if (value == '\r')
    out += "\\r";
  else if (value == '\t')
    out += "\\t";
  else if (is_printable(value))
    out += character;
  else if (value < 0x100)
    out += fmt::format("\\x{:02x}", static_cast<unsigned>(value));
  else if (value < 0x10000)
    out += fmt::format("\\u{:04x}", static_cast<unsigned>(value));
  else
    out += fmt::format("\\U{:08x}", static_cast<unsigned>(value));
}

}  // namespace

std::string float_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto [end, failure] =
      std::to_chars(buffer, buffer + sizeof buffer, std::fabs(number), std::chars_format::scientific);
  const std::string_view shortest(buffer, static_cast<std::size_t>(end - buffer));  // "1.234e+02"
  const std::size_t mark = shortest.find('e');
  std::string digits(shortest.substr(0, mark));
  std::erase(digits, '.');
  int exponent = 0;
  const std::size_t sign = shortest[mark + 1] == '+' ? mark + 2 : mark + 1;
  std::from_chars(shortest.data() + sign, shortest.data() + shortest.size(), exponent);
  return (std::signbit(number) ? "-" : "") + positional(digits, exponent);
}

std::string integer_text(Integer integer) { return fmt::format("{}", integer); }

std::string quoted(const std::string& text) {
  const bool single = text.find('\'') != std::string::npos && text.find('"') == std::string::npos;
  const char quote = single ? '"' : '\'';
  std::string out(1, quote);
  for (const std::string_view character : code_points(text)) append_escaped(out, character, quote);
  return out + quote;
}

bool append_text(std::string& out, const Value& value, std::size_t most) {
  if (value.is_undefined()) return true;
  if (const std::string* text = value.text()) {
    if (out.size() + text->size() > most) return false;
    out += *text;
    return true;
  }
  return append_repr(out, value, most);
}

bool append_repr(std::string& out, const Value& value, std::size_t most) {
  if (out.size() > most) return false;
  if (value.is_undefined())
    out += "Undefined";
  else if (value.is_none())
    out += "None";
  else if (const bool* truth = value.truth())
    out += *truth ? "True" : "False";
  else if (const auto* integer = std::get_if<Integer>(&value.storage()))
    out += integer_text(*integer);
  else if (const double* number = value.number())
    out += float_text(*number);
  else if (const std::string* text = value.text())
    out += value.is_markup() ? "Markup(" + quoted(*text) + ")" : quoted(*text);
  else if (const Sequence* sequence = value.sequence())
    return append_sequence(out, *sequence, most);
  else if (const Dictionary* dictionary = value.dictionary())
    return append_dictionary(out, *dictionary, most);
  else
    out += value.object()->shown();
  return out.size() <= most;
}

}  // namespace muster::chat
