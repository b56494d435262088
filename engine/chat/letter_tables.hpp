// Tables of Unicode's letters, ascending by code point.
#pragma once

#include <span>

namespace muster::chat::letter_tables {

struct Range {
  char32_t first, last;
};
// The letters first, first + stride, … last become the one that is `difference` further.
struct Step {
  char32_t first, last;
  int stride, difference;
};
// A letter that becomes several.
struct Several {
  char32_t letter;
  const char* text;
};
struct Conversion {
  std::span<const Step> steps;
  std::span<const Several> several;
};

std::span<const Range> cased_ranges();
std::span<const Range> ignored_ranges();  // that the rule of the final sigma looks through
std::span<const Range> unprintable_ranges();
std::span<const Range> upper_case_ranges();
std::span<const Range> lower_case_ranges();
std::span<const Range> alphabetic_ranges();
std::span<const Range> digit_ranges();
std::span<const Range> numeric_ranges();
Conversion upper_conversion();
Conversion lower_conversion();
Conversion title_conversion();

}  // namespace muster::chat::letter_tables
