#include "base/clean_text.hpp"

#include <fmt/format.h>

#include "base/character.hpp"

namespace muster {
namespace {

// The bytes of a colour that text begins with: 0 if it does not.
std::size_t colour_at(std::string_view text) {
  if (!text.starts_with("\033[")) return 0;
  const std::size_t end = text.find_first_not_of("0123456789;", 2);
  return end != text.npos && text[end] == 'm' ? end + 1 : 0;
}

std::string escaped(const Character& character) {
  constexpr unsigned replacement = 0xFFFD;
  return fmt::format("\\u{:04x}", character.valid ? static_cast<unsigned>(character.code) : replacement);
}

std::string clean(std::string_view text, bool colours, std::string (*show)(const Character&)) {
  std::string safe;
  safe.reserve(text.size());
  while (!text.empty()) {
    const Character next = first_character(text);
    std::size_t size = next.bytes;
    if (const std::size_t colour = colours ? colour_at(text) : 0; colour > 0)
      safe += text.substr(0, size = colour);
    else if (next.code == U'\n' || next.code == U'\t' || !orders_the_terminal(next))
      safe += text.substr(0, size);
    else
      safe += show(next);
    text.remove_prefix(size);
  }
  return safe;
}

}  // namespace

std::string printable_lines(std::string_view text) { return clean(text, false, shown); }
std::string printable_lines_with_colours(std::string_view text) { return clean(text, true, shown); }
std::string escaped_lines(std::string_view text) { return clean(text, false, escaped); }

}  // namespace muster
