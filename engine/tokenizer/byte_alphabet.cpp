#include "tokenizer/byte_alphabet.hpp"

#include <array>
#include <cstdint>

#include "tokenizer/utf8.hpp"

namespace muster::tokenizer {
namespace {

// Bytes that are printable in Latin-1 stand for themselves; the others follow from U+0100 on, in order.
struct Alphabet {
  std::array<std::string, 256> characters;
  std::array<std::int16_t, 0x144> bytes;  // by code point; -1: none

  Alphabet() {
    bytes.fill(-1);
    char32_t next = 0x100;
    for (char32_t byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
      const char32_t point = printable ? byte : next++;
      append_code_point(characters[byte], point);
      bytes[point] = static_cast<std::int16_t>(byte);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet table;
  return table;
}

}  // namespace

std::string_view character_of(unsigned char byte) { return alphabet().characters[byte]; }

std::optional<std::string> bytes_of(std::string_view text) {
  const Alphabet& table = alphabet();
  std::string bytes;
  bytes.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const char32_t point = next_code_point(text, at);
    if (point >= table.bytes.size() || table.bytes[point] < 0) return std::nullopt;
    bytes += static_cast<char>(table.bytes[point]);
  }
  return bytes;
}

std::string in_byte_alphabet(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char byte : bytes) text += character_of(static_cast<unsigned char>(byte));
  return text;
}

}  // namespace muster::tokenizer
