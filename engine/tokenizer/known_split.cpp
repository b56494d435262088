#include "tokenizer/known_split.hpp"

#include <array>
#include <cstdint>
#include <vector>

#include "tokenizer/character_class.hpp"
#include "tokenizer/utf8.hpp"

namespace muster::tokenizer {
namespace {

constexpr std::string_view gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view three_digits_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view one_digit_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// What these patterns distinguish.
enum Kind : std::uint8_t { other, letter, number, space, newline };

class Kinds {
 public:
  Kinds() : kinds_(0x110000, other) {
    mark(property_class("L").value(), letter);
    mark(property_class("N").value(), number);
    mark(bracket_class("space").value(), space);
    kinds_['\r'] = kinds_['\n'] = newline;
  }
  Kind operator[](char32_t point) const { return kinds_[point]; }

 private:
  void mark(const CodePointSet& set, Kind kind) {
    for (const CodePointRange& range : set.ranges())
      for (char32_t point = range.first; point <= range.last; ++point) kinds_[point] = kind;
  }
  std::vector<Kind> kinds_;
};

const Kinds& kinds() {
  static const Kinds table;
  return table;
}

struct Character {
  Kind kind;
  std::size_t end;  // where the next one begins
};

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text), kinds_(kinds()) {}

  bool at_end(std::size_t at) const { return at == text_.size(); }
  Character character(std::size_t at) const {
    const unsigned char first = byte_at(text_, at);
    if (first < 0x80) return {kinds_[first], at + 1};
    const char32_t point = next_code_point(text_, at);
    return {kinds_[point], at};
  }
  bool sees(Kind kind, std::size_t at) const { return !at_end(at) && character(at).kind == kind; }
  bool sees(char c, std::size_t at) const { return !at_end(at) && text_[at] == c; }

  // The end of a run of one kind, at most `most` characters of it.
  std::size_t run(Kind kind, std::size_t at, std::size_t most = static_cast<std::size_t>(-1)) const {
    for (; most > 0 && !at_end(at); --most) {
      const Character next = character(at);
      if (next.kind != kind) break;
      at = next.end;
    }
    return at;
  }

  // 's, 't, 'm, 'd, 're, 've, 'll whose apostrophe is at `at`; the end, or `at` itself.
  std::size_t contraction(std::size_t at, bool any_case) const {
    const auto letter_at = [&](std::size_t place) {
      if (place >= text_.size()) return '\0';
      const char c = text_[place];
      return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    };
    const char first = letter_at(at + 1), second = letter_at(at + 2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
    if ((first == 'r' || first == 'v') && second == 'e') return at + 3;
    if (first == 'l' && second == 'l') return at + 3;
    // ſ is an s in another case.
    if (any_case && text_.substr(at + 1).starts_with("\xC5\xBF")) return at + 3;
    return at;
  }

  // A run of white space, of which the last character goes to the word after it.
  std::size_t spaces(std::size_t begin) const {
    std::size_t at = begin, last = begin, last_newline_end = begin;
    while (!at_end(at)) {
      const Character next = character(at);
      if (next.kind != space && next.kind != newline) break;
      last = at;
      at = next.end;
      if (next.kind == newline) last_newline_end = at;
    }
    if (newlines_end_runs && last_newline_end > begin) return last_newline_end;
    return at_end(at) || last == begin ? at : last;
  }

  bool newlines_end_runs = false;  // \s*[\r\n]+

 private:
  std::string_view text_;
  const Kinds& kinds_;
};

std::size_t end_of_gpt2_word(std::string_view text, std::size_t begin) {
  const Scanner scan(text);
  if (scan.sees('\'', begin))
    if (const std::size_t end = scan.contraction(begin, false); end > begin) return end;
  const std::size_t at = scan.sees(' ', begin) && begin + 1 < text.size() ? begin + 1 : begin;
  const Kind kind = scan.character(at).kind;
  if (kind == space || kind == newline) return scan.spaces(begin);
  return scan.run(kind, at);
}

std::size_t end_of_newer_word(std::string_view text, std::size_t begin, std::size_t digits) {
  Scanner scan(text);
  scan.newlines_end_runs = true;
  const Character first = scan.character(begin);
  switch (first.kind) {
    case letter:
      return scan.run(letter, first.end);
    case number:
      return scan.run(number, begin, digits);
    case newline:
      return scan.spaces(begin);
    case space:
      if (scan.sees(letter, first.end)) return scan.run(letter, first.end);
      if (text[begin] != ' ' || !scan.sees(other, first.end)) return scan.spaces(begin);
      break;
    case other:
      if (text[begin] == '\'')
        if (const std::size_t end = scan.contraction(begin, true); end > begin) return end;
      if (scan.sees(letter, first.end)) return scan.run(letter, first.end);
      break;
  }
  return scan.run(newline, scan.run(other, first.end));
}

}  // namespace

std::string_view pattern_of(KnownSplit split) {
  switch (split) {
    case KnownSplit::gpt2:
      return gpt2_pattern;
    case KnownSplit::three_digits:
      return three_digits_pattern;
    case KnownSplit::one_digit:
      return one_digit_pattern;
  }
  return {};
}

std::optional<KnownSplit> known_split(std::string_view pattern) {
  for (const KnownSplit split : {KnownSplit::gpt2, KnownSplit::three_digits, KnownSplit::one_digit})
    if (pattern_of(split) == pattern) return split;
  return std::nullopt;
}

std::size_t end_of_word(KnownSplit split, std::string_view text, std::size_t begin) {
  switch (split) {
    case KnownSplit::gpt2:
      return end_of_gpt2_word(text, begin);
    case KnownSplit::three_digits:
      return end_of_newer_word(text, begin, 3);
    case KnownSplit::one_digit:
      return end_of_newer_word(text, begin, 1);
  }
  return text.size();
}

}  // namespace muster::tokenizer
