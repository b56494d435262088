// Text in aligned columns, in colour if wanted.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster {

enum class Colour { plain, dim, bold, green, yellow, red };

std::string paint(Colour colour, std::string_view text, bool enabled);

// Columns a text takes on a terminal: one per character, however many bytes it has.
std::size_t display_width(std::string_view text);

struct Cell {
  std::string text;
  Colour colour = Colour::plain;
  bool right = false;  // aligned to the right
};

// Rows in aligned columns, two blanks apart; the last column is not padded.
std::string format_table(const std::vector<std::vector<Cell>>& rows, bool colour);

}  // namespace muster
