// Code points in UTF-8 text that is known to be valid.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster::tokenizer {

inline unsigned char byte_at(std::string_view text, std::size_t at) { return static_cast<unsigned char>(text[at]); }

inline bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

// Bytes of the character that begins with this byte.
inline std::size_t character_length(char first) {
  const auto byte = static_cast<unsigned char>(first);
  if (byte < 0x80) return 1;
  if (byte < 0xE0) return 2;
  return byte < 0xF0 ? 3 : 4;
}

// The code point at `at`, which is moved past it.
inline char32_t next_code_point(std::string_view text, std::size_t& at) {
  const char32_t first = byte_at(text, at);
  if (first < 0x80) {
    ++at;
    return first;
  }
  if (first < 0xE0) {
    const char32_t point = (first & 0x1FU) << 6U | (byte_at(text, at + 1) & 0x3FU);
    at += 2;
    return point;
  }
  if (first < 0xF0) {
    const char32_t point =
        (first & 0x0FU) << 12U | (byte_at(text, at + 1) & 0x3FU) << 6U | (byte_at(text, at + 2) & 0x3FU);
    at += 3;
    return point;
  }
  const char32_t point = (first & 0x07U) << 18U | (byte_at(text, at + 1) & 0x3FU) << 12U |
                         (byte_at(text, at + 2) & 0x3FU) << 6U | (byte_at(text, at + 3) & 0x3FU);
  at += 4;
  return point;
}

// Where the character that ends at `end` (> 0) begins.
inline std::size_t previous_character(std::string_view text, std::size_t end) {
  do --end;
  while (end > 0 && is_continuation(text[end]));
  return end;
}

void append_code_point(std::string& text, char32_t point);

// What is not UTF-8 becomes U+FFFD, one for each longest run of bytes that could have begun a character.
std::string with_replacements(std::string_view bytes);

// The length of the part of bytes whose reading is settled whatever follows: all but a character that may still be
// completed.
std::size_t settled_length(std::string_view bytes);

}  // namespace muster::tokenizer
