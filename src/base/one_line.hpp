// Text of somebody else's on one line of a table or a message.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster {

// Control characters as \n, \t or \x1b, so that they neither break the line nor order the terminal about; of a text of
// more than most characters the beginning, and ….
std::string on_one_line(std::string_view text, std::size_t most);

}  // namespace muster
