// Small operations on text that every layer needs.
#pragma once

#include <charconv>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

std::string_view trim(std::string_view text);
std::string to_lower(std::string_view text);
// "a,b,,c" → {"a","b","","c"}; an empty text gives one empty part.
std::vector<std::string> split(std::string_view text, char separator);
std::string join(std::span<const std::string> parts, std::string_view separator);

// Whether text is valid UTF-8: no overlong forms, no surrogates, nothing beyond U+10FFFF.
bool is_utf8(std::string_view text);

// The whole of text as a number, or nothing: no leading space, no trailing junk, no overflow.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// The known word that a typing error most likely meant, if any is close enough.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> known);

}  // namespace muster
