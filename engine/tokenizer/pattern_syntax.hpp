// Regular expressions as tokenizer.json writes them (Oniguruma's Ruby syntax), taken apart into what PCRE2 matches and
// what it must not know: which characters belong to a class. Classes are sets of code points from our own tables.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "tokenizer/character_class.hpp"

namespace muster::tokenizer {

struct PatternFragment {
  std::string syntax;  // of PCRE2, without any character of the text; empty where a set stands
  std::size_t set = 0;
};

struct PatternSyntax {
  std::vector<PatternFragment> fragments;
  std::vector<CodePointSet> sets;
};

// Refused, with the construct named: what is not supported (backreferences, conditions, …) and what is not a pattern.
Result<PatternSyntax> parse_pattern(std::string_view pattern);

}  // namespace muster::tokenizer
