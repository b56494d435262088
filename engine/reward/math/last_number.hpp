// The last number of a text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace muster::reward::math {

// Written in one way: "-1,234.50" is "-1234.5", "007" is "7".
std::optional<std::string> last_number(std::string_view text);

}  // namespace muster::reward::math
