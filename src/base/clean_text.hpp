// Foreign text, made safe to print: control characters are shown, not obeyed.
#pragma once

#include <string>
#include <string_view>

namespace muster {

// Every control character as \x1b or \u202e, bytes that are not UTF-8 as \xff; line ends and tabs stay. Safe text
// is returned unchanged.
std::string printable_lines(std::string_view text);

// The same, but colours (ESC [ digits m) stay, which our own tables are drawn with.
std::string printable_lines_with_colours(std::string_view text);

// The same for JSON, and for YAML whose text is in double quotes: as \u001b and \u202e, which every reader of it reads as
// the character again. Bytes that are not UTF-8 become \ufffd.
std::string escaped_lines(std::string_view text);

}  // namespace muster
