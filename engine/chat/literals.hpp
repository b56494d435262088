// Numbers and strings as a template writes them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "chat/value.hpp"

namespace muster::chat {

struct NumberLiteral {
  Value value;
  std::size_t length = 0;  // bytes it takes
  std::string failure;     // empty when it is one
};
// The number at the beginning of text, which begins with a digit. fractions: whether "1.5" is one number.
NumberLiteral read_number_literal(std::string_view text, bool fractions);

// A string's inside with its escapes (\n, \x41, \u00e9, …) resolved; the rest stays. Nothing: what says why.
std::optional<std::string> unescaped(std::string_view text, std::string& what);

// A number as Python's int() and float() read it from text: white space around it, underscores between digits.
bool parse_integer(std::string_view text, int base, Integer& integer);
bool parse_float(std::string_view text, double& number);

}  // namespace muster::chat
