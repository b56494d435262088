// One character of arbitrary text: what it is, and whether a terminal would act on it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster {

struct Character {
  char32_t code = 0;      // if a byte is not UTF-8, the byte
  std::size_t bytes = 1;  // of the text
  bool valid = false;     // UTF-8: no overlong forms, no surrogates, nothing beyond U+10FFFF
};

// text is not empty.
Character first_character(std::string_view text);

// Control characters, those that turn the direction of writing (a name can pretend to be another with them), and bytes
// that are not UTF-8.
bool orders_the_terminal(const Character& character);

// "\x1b", "\u202e".
std::string shown(const Character& character);

}  // namespace muster
