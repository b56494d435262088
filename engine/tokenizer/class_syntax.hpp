// Characters, escapes and [classes] within a pattern: where the parser of patterns meets single code points.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tokenizer/character_class.hpp"

namespace muster::tokenizer {

// A place in a pattern. The first complaint stays; after it nothing more is read.
class PatternReader {
 public:
  explicit PatternReader(std::string_view pattern) : pattern_(pattern) {}

  bool at_end() const { return failed() || at_ == pattern_.size(); }
  bool sees(std::string_view text) const { return !failed() && pattern_.substr(at_).starts_with(text); }
  bool take(std::string_view text);
  char peek() const { return at_end() ? '\0' : pattern_[at_]; }
  char32_t next();  // U+0000 at the end
  // What stands before the next `end`, which is taken too; a complaint where there is none.
  std::string_view until(std::string_view end);
  // Digits of this base, at most `most`; nothing where there is none.
  std::optional<char32_t> number(unsigned base, std::size_t most);
  std::size_t position() const { return at_; }
  void go_back(std::size_t position) { at_ = position; }

  void complain(std::string complaint);
  bool failed() const { return !complaint_.empty(); }
  const std::string& complaint() const { return complaint_; }

 private:
  std::string_view pattern_;
  std::size_t at_ = 0;
  std::string complaint_;
};

// What follows a backslash where it stands for characters: one of them, or a class (\s, \p{L}, …). Nothing where it is
// something else; then nothing was taken.
struct Escape {
  std::optional<char32_t> character;
  CodePointSet set;  // where there is no single character
};
std::optional<Escape> read_character_escape(PatternReader& reader);

// A class whose "[" was taken, up to its "]". Its own "^" is not applied but returned.
struct BracketClass {
  CodePointSet set;
  bool negated = false;
};
BracketClass read_bracket_class(PatternReader& reader, int depth = 0);

}  // namespace muster::tokenizer
