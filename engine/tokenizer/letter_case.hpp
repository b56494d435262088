// Lower-casing, and which characters stand for each other where case does not count.
#pragma once

#include <string>
#include <string_view>

#include "tokenizer/character_class.hpp"

namespace muster::tokenizer {

// Each character separately: a capital sigma at the end of a word becomes σ.
std::string lower_cased(std::string_view text);

// The set with every character that differs from one of its own by case only.
CodePointSet in_any_case(const CodePointSet& members);

// Whether one character stands for several of these (ß for ss), or one of these for several others, where case does not
// count: a pattern that holds it cannot be written with sets of characters alone.
bool has_long_case(std::u32string_view text);

}  // namespace muster::tokenizer
