// What Python knows about letters: their other case, and which characters can be shown.
#pragma once

#include <string>
#include <string_view>

namespace muster::chat {

std::string upper(std::string_view text);
std::string lower(std::string_view text);
// str.title(): every run of letters begins with a capital.
std::string title(std::string_view text);
// The first character as a capital, the rest in lower case.
std::string capitalize(std::string_view text);

// str.isprintable() of one code point.
bool is_printable(char32_t value);
// Whether a letter has a case.
bool is_cased(char32_t value);
// str.isupper() and str.islower() of one code point.
bool is_upper(char32_t value);
bool is_lower(char32_t value);
// str.isalpha() and str.isdigit() of one code point.
bool is_alphabetic(char32_t value);
bool is_digit(char32_t value);
bool is_numeric(char32_t value);

}  // namespace muster::chat
