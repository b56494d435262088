#include "lease/printable_text.hpp"

#include "base/character.hpp"

namespace muster::lease {
namespace {

// Without a shape of their own: what they do to the text around them is how a name passes for another.
bool is_unseen(char32_t code) {
  return code == 0xAD || code == 0x61C || code == 0x180E || (code >= 0x200B && code <= 0x200F) ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2060 && code <= 0x206F) || code == 0xFEFF ||
         (code >= 0xFFF9 && code <= 0xFFFB) || (code >= 0xE0000 && code <= 0xE0FFF);
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
    if (!next.valid || is_unseen(next.code))
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
