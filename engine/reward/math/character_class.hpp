// Letters and digits of ASCII, whatever the locale.
#pragma once

namespace muster::reward::math {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

}  // namespace muster::reward::math
