#include "base/one_line.hpp"

#include "base/character.hpp"

namespace muster {

std::string on_one_line(std::string_view text, std::size_t most) {
  std::string line;
  for (std::size_t characters = 0; !text.empty(); ++characters) {
    if (characters == most) return line + "…";
    const Character next = first_character(text);
    if (next.code == U'\n')
      line += "\\n";
    else if (next.code == U'\t')
      line += "\\t";
    else if (orders_the_terminal(next))
      line += shown(next);
    else
      line += text.substr(0, next.bytes);
    text.remove_prefix(next.bytes);
  }
  return line;
}

}  // namespace muster
