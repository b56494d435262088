// Text on a terminal's grid of cells: a letter takes one, a wide sign (CJK, most pictures) two, an accent that is put
// on the letter before it none.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster {

// The cells that a line without control characters takes. A byte that is not UTF-8 counts as one.
std::size_t cell_width(std::string_view line);

// As much of the line as fits in that many cells. A cut line ends in the mark, one cell wide, which is "…" or "~".
std::string cut_to_cells(std::string_view line, std::size_t cells, std::string_view mark = "…");

// The same, padded with blanks to exactly that many cells: after the text, or before it.
enum class Align { left, right };
std::string fit_to_cells(std::string_view line, std::size_t cells, Align align = Align::left,
                         std::string_view mark = "…");

// One line that some program wrote, as it would be seen: what a carriage return overwrote is gone, colours and other
// escape sequences are removed, tabs are blanks, broken bytes are U+FFFD. With ascii_only, everything beyond
// ASCII is "?".
std::string visible_line(std::string_view line, bool ascii_only = false);

}  // namespace muster
