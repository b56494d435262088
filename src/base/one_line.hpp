// Foreign text on one line of a table or a message.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster {

// Control characters as \n, \t, \x1b or \u202e, so that they neither break the line nor control the terminal. Text of
// more than most characters is cut, and ends in ….
std::string on_one_line(std::string_view text, std::size_t most);

}  // namespace muster
