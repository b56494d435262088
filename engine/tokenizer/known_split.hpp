// The patterns that nearly every byte-level tokenizer splits by, written out by hand: many times faster than a regular
// expression. tests/unit/tokenizer/known_split_test.cpp compares them with the expressions.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace muster::tokenizer {

enum class KnownSplit {
  gpt2,          // GPT-2 and whatever uses ByteLevel's own pattern
  three_digits,  // Llama 3
  one_digit,     // Qwen 2 and later
};

// The pattern whose text is exactly this one.
std::optional<KnownSplit> known_split(std::string_view pattern);

std::string_view pattern_of(KnownSplit split);

// Where the word that begins at `begin` (before the end of text) ends. Words follow each other without gaps.
std::size_t end_of_word(KnownSplit split, std::string_view text, std::size_t begin);

}  // namespace muster::tokenizer
