#include "lease/printable_text.hpp"

namespace muster::lease {
namespace {

struct Character {
  char32_t code = 0xFFFD;
  std::size_t bytes = 1;
  bool valid = false;
};

Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return {};
  char32_t code = lead & (0xFFU >> (length + 1));
  for (std::size_t at = 1; at < length; ++at) {
    if ((byte(at) & 0xC0U) != 0x80U) return {};
    code = (code << 6) | (byte(at) & 0x3FU);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (overlong || surrogate || code > 0x10FFFF) return {};
  return {code, length, true};
}

}  // namespace

std::string printable(std::string_view text, std::size_t most_characters) {
  std::string safe;
  std::size_t last_start = 0;  // of the last character in safe
  for (std::size_t characters = 0; !text.empty(); ++characters) {
    if (characters == most_characters) {
      safe.resize(last_start);
      return safe + "…";
    }
    const Character next = first_character(text);
    const bool control = next.code < 0x20 || (next.code >= 0x7F && next.code < 0xA0);
    last_start = safe.size();
    if (!next.valid)
      safe += "\uFFFD";
    else if (control)
      safe += ' ';
    else
      safe += text.substr(0, next.bytes);
    text.remove_prefix(next.bytes);
  }
  return safe;
}

}  // namespace muster::lease
