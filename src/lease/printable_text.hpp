// Text from other users' processes, made safe to store as JSON and to show on a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster::lease {

// Valid UTF-8 of at most that many characters: control characters become blanks, broken bytes and characters that are
// not seen or turn the direction of writing (U+202E) become U+FFFD, a cut ends in "…".
std::string printable(std::string_view text, std::size_t most_characters);

}  // namespace muster::lease
