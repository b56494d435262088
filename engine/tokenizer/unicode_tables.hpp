// Facts about code points, as the `tokenizers` library knows them. The data is made by scripts/unicode_tables.py; what
// is asked for elsewhere is in character_class.hpp, letter_case.hpp and normal_form.hpp.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace muster::tokenizer {

struct CodePointRange {
  char32_t first, last;  // both belong to it

  bool operator==(const CodePointRange&) const = default;
};

namespace tables {

struct CategoryRun {
  char32_t first;         // up to the next run's
  std::uint8_t category;  // place in category_names of character_class.cpp
};

struct NamedRanges {
  std::string_view name;
  std::span<const CodePointRange> ranges;
};

struct LowerRun {
  char32_t first, last;
  std::uint32_t step;  // 1: every code point of the range; 2: every second
  char32_t lower;      // of the first
};

struct MarkRun {
  char32_t first, last;
  std::uint8_t place;  // in the canonical order; 0, for all others, never moves
};

extern const std::span<const CategoryRun> categories;
extern const std::span<const NamedRanges> pattern_classes;  // of regular expressions: \w, [[:punct:]], …
extern const std::span<const NamedRanges> scripts;          // names in lower case
extern const std::span<const CodePointRange> numeric;       // for the pre-tokenizer Digits
extern const std::span<const CodePointRange> strippable;    // for the normaliser Strip
extern const std::span<const CodePointRange> token_space;   // white space next to added tokens
extern const std::span<const CodePointRange> token_word;    // characters of words next to added tokens
extern const std::span<const LowerRun> lower;               // U+0130 alone becomes two characters and is not in it
extern const std::span<const MarkRun> marks;
// Records: code point, length (| 0x100 where composition undoes the step), that many code points.
extern const std::span<const char32_t> canonical;   // one step; steps are repeated
extern const std::span<const char32_t> compatible;  // the whole decomposition
extern const std::span<const char32_t> same_case;   // records: length, that many code points
extern const std::span<const char32_t> long_case;   // records: code point, length, what it folds to

}  // namespace tables
}  // namespace muster::tokenizer
