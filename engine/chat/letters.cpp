#include "chat/letters.hpp"

#include <algorithm>

#include "chat/code_points.hpp"
#include "chat/letter_tables.hpp"

namespace muster::chat {
namespace {

namespace tables = letter_tables;

bool is_within(std::span<const tables::Range> ranges, char32_t value) {
  const auto after = std::ranges::upper_bound(ranges, value, {}, &tables::Range::first);
  return after != ranges.begin() && value <= (after - 1)->last;
}

void append_converted(std::string& out, std::string_view character, const tables::Conversion& conversion) {
  const char32_t value = first_code_point(character).value;
  const auto several = std::ranges::lower_bound(conversion.several, value, {}, &tables::Several::letter);
  if (several != conversion.several.end() && several->letter == value) {
    out += several->text;
    return;
  }
  const auto after = std::ranges::upper_bound(conversion.steps, value, {}, &tables::Step::first);
  if (after != conversion.steps.begin()) {
    const tables::Step& step = *(after - 1);
    if (value <= step.last && (value - step.first) % static_cast<char32_t>(step.stride) == 0)
      return append_code_point(out, static_cast<char32_t>(static_cast<int>(value) + step.difference));
  }
  out += character;
}

// The nearest of the characters that is not looked through has a case.
template <class Characters>
bool meets_cased(Characters begin, Characters end) {
  const auto found = std::find_if_not(begin, end, [](std::string_view character) {
    return is_within(tables::ignored_ranges(), first_code_point(character).value);
  });
  return found != end && is_cased(first_code_point(*found).value);
}

// Σ is ς at the end of a word.
bool is_final_sigma(const std::vector<std::string_view>& characters, std::size_t at) {
  if (first_code_point(characters[at]).value != 0x3A3) return false;
  const auto here = characters.begin() + static_cast<std::ptrdiff_t>(at);
  const bool before = meets_cased(std::make_reverse_iterator(here), characters.rend());
  return before && !meets_cased(here + 1, characters.end());
}

void append_lower(std::string& out, const std::vector<std::string_view>& characters, std::size_t at) {
  if (is_final_sigma(characters, at))
    out += "\xcf\x82";
  else
    append_converted(out, characters[at], tables::lower_conversion());
}

}  // namespace

bool is_printable(char32_t value) { return !is_within(tables::unprintable_ranges(), value); }
bool is_cased(char32_t value) { return is_within(tables::cased_ranges(), value); }
bool is_upper(char32_t value) { return is_within(tables::upper_case_ranges(), value); }
bool is_lower(char32_t value) { return is_within(tables::lower_case_ranges(), value); }
bool is_alphabetic(char32_t value) { return is_within(tables::alphabetic_ranges(), value); }
bool is_digit(char32_t value) { return is_within(tables::digit_ranges(), value); }
bool is_numeric(char32_t value) { return is_within(tables::numeric_ranges(), value); }

std::string upper(std::string_view text) {
  std::string out;
  for (const std::string_view character : code_points(text))
    append_converted(out, character, tables::upper_conversion());
  return out;
}

std::string lower(std::string_view text) {
  std::string out;
  const auto characters = code_points(text);
  for (std::size_t i = 0; i < characters.size(); ++i) append_lower(out, characters, i);
  return out;
}

std::string title(std::string_view text) {
  std::string out;
  const auto characters = code_points(text);
  bool inside = false;
  for (std::size_t i = 0; i < characters.size(); ++i) {
    if (inside)
      append_lower(out, characters, i);
    else
      append_converted(out, characters[i], tables::title_conversion());
    inside = is_cased(first_code_point(characters[i]).value);
  }
  return out;
}

std::string capitalize(std::string_view text) {
  std::string out;
  const auto characters = code_points(text);
  for (std::size_t i = 0; i < characters.size(); ++i) {
    if (i == 0)
      append_converted(out, characters[i], tables::title_conversion());
    else
      append_lower(out, characters, i);
  }
  return out;
}

}  // namespace muster::chat
