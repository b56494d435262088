#include "tokenizer/utf8.hpp"

namespace muster::tokenizer {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";

// How the bytes at the front begin: a whole character, the beginning of one, or neither.
struct Reading {
  std::size_t length;  // of the character, or of what is replaced by one U+FFFD
  bool whole;
  bool open;  // all bytes are used up and more could complete the character
};

Reading read_character(std::string_view bytes) {
  const unsigned char first = byte_at(bytes, 0);
  if (first < 0x80) return {1, true, false};
  if (first < 0xC2 || first > 0xF4) return {1, false, false};
  const std::size_t length = character_length(bytes[0]);
  for (std::size_t i = 1; i < length; ++i) {
    if (i == bytes.size()) return {i, false, true};
    unsigned char low = 0x80, high = 0xBF;
    if (i == 1 && first == 0xE0) low = 0xA0;   // no overlong forms
    if (i == 1 && first == 0xED) high = 0x9F;  // no surrogates
    if (i == 1 && first == 0xF0) low = 0x90;
    if (i == 1 && first == 0xF4) high = 0x8F;  // nothing beyond U+10FFFF
    if (byte_at(bytes, i) < low || byte_at(bytes, i) > high) return {i, false, false};
  }
  return {length, true, false};
}

}  // namespace

void append_code_point(std::string& text, char32_t point) {
  const auto byte = [](char32_t value) { return static_cast<char>(static_cast<unsigned char>(value)); };
  if (point < 0x80) {
    text += byte(point);
  } else if (point < 0x800) {
    text += byte(0xC0U | point >> 6U);
    text += byte(0x80U | (point & 0x3FU));
  } else if (point < 0x10000) {
    text += byte(0xE0U | point >> 12U);
    text += byte(0x80U | (point >> 6U & 0x3FU));
    text += byte(0x80U | (point & 0x3FU));
  } else {
    text += byte(0xF0U | point >> 18U);
    text += byte(0x80U | (point >> 12U & 0x3FU));
    text += byte(0x80U | (point >> 6U & 0x3FU));
    text += byte(0x80U | (point & 0x3FU));
  }
}

std::string with_replacements(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const Reading reading = read_character(bytes);
    text += reading.whole ? bytes.substr(0, reading.length) : replacement;
    bytes.remove_prefix(reading.length);
  }
  return text;
}

std::size_t settled_length(std::string_view bytes) {
  // A character that may still be completed begins in the last three bytes.
  for (std::size_t back = 1; back <= 3 && back <= bytes.size(); ++back) {
    const std::size_t begin = bytes.size() - back;
    if (is_continuation(bytes[begin])) continue;
    return read_character(bytes.substr(begin)).open ? begin : bytes.size();
  }
  return bytes.size();
}

}  // namespace muster::tokenizer
