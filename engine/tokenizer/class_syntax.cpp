#include "tokenizer/class_syntax.hpp"

#include <fmt/format.h>

#include <utility>

#include "tokenizer/utf8.hpp"

namespace muster::tokenizer {
namespace {

constexpr int deepest_class = 50;

CodePointSet of(char32_t point) {
  CodePointSet set;
  set.add(point, point);
  return set;
}

// \p{Name}, \p{^Name}, \P{Name}: the letter was taken.
CodePointSet read_property(PatternReader& reader, bool negated) {
  if (!reader.take("{")) {
    reader.complain("\\p without {…}");
    return {};
  }
  if (reader.take("^")) negated = !negated;
  const std::string_view name = reader.until("}");
  if (reader.failed()) return {};
  const auto members = property_class(name);
  if (!members) {
    reader.complain(fmt::format("\\p{{{}}} is not built (known: {})", name, known_properties()));
    return {};
  }
  return negated ? members->complement() : *members;
}

// \x41, \x{1F642}: "x" was taken.
char32_t read_hexadecimal(PatternReader& reader) {
  const bool braces = reader.take("{");
  const auto point = reader.number(16, braces ? 6 : 2);
  if (!point || (braces && !reader.take("}")) || *point > last_code_point || (!braces && *point >= 0x80)) {
    reader.complain("\\x that names no character");
    return 0;
  }
  return *point;
}

std::optional<char32_t> simple_escape(char letter) {
  switch (letter) {
    case 't':
      return U'\t';
    case 'n':
      return U'\n';
    case 'r':
      return U'\r';
    case 'f':
      return U'\f';
    case 'v':
      return U'\v';
    case 'a':
      return U'\a';
    case 'e':
      return U'\x1B';
    default:
      return std::nullopt;
  }
}

std::optional<CodePointSet> class_escape(char letter) {
  switch (letter) {
    case 's':
      return bracket_class("space");
    case 'd':
      return bracket_class("digit");
    case 'w':
      return bracket_class("word");
    case 'h':
      return bracket_class("xdigit");
    default:
      return std::nullopt;
  }
}

// [:name:] or [:^name:], whose "[:" was taken.
CodePointSet read_named_bracket(PatternReader& reader) {
  const bool negated = reader.take("^");
  const std::string_view name = reader.until(":]");
  const auto members = name == "word" ? std::nullopt : bracket_class(name);
  if (!members) {
    reader.complain(fmt::format("[[:{}:]] is not built", name));
    return {};
  }
  return negated ? members->complement() : *members;
}

// One member: a character, or a set where it is one.
Escape read_member(PatternReader& reader, int depth) {
  if (reader.take("[:")) return {std::nullopt, read_named_bracket(reader)};
  if (reader.take("[")) {
    const BracketClass inner = read_bracket_class(reader, depth + 1);
    return {std::nullopt, inner.negated ? inner.set.complement() : inner.set};
  }
  if (reader.take("\\")) {
    if (reader.take("b")) return {U'\b', {}};
    auto escape = read_character_escape(reader);
    if (!escape) reader.complain(fmt::format("\\{} in a class is not built", reader.peek()));
    return escape.value_or(Escape{U'\0', {}});
  }
  return {reader.next(), {}};
}

void add_member(PatternReader& reader, int depth, CodePointSet& members) {
  const Escape member = read_member(reader, depth);
  if (!member.character) {
    members.add(member.set);
    return;
  }
  const std::size_t before = reader.position();
  if (!reader.take("-") || reader.sees("]") || reader.sees("&&")) {
    reader.go_back(before);  // a "-" at the end is a character
    members.add(of(*member.character));
    return;
  }
  const Escape last = read_member(reader, depth);
  if (!last.character || *last.character < *member.character)
    reader.complain("a range whose end is not a character after its beginning");
  else
    members.add(*member.character, *last.character);
}

}  // namespace

bool PatternReader::take(std::string_view text) {
  if (!sees(text)) return false;
  at_ += text.size();
  return true;
}

char32_t PatternReader::next() { return at_end() ? U'\0' : next_code_point(pattern_, at_); }

std::string_view PatternReader::until(std::string_view end) {
  const std::size_t found = pattern_.find(end, at_);
  if (found == pattern_.npos) {
    complain(fmt::format("\"{}\" is missing", end));
    return {};
  }
  const std::string_view text = pattern_.substr(at_, found - at_);
  at_ = found + end.size();
  return text;
}

std::optional<char32_t> PatternReader::number(unsigned base, std::size_t most) {
  char32_t value = 0;
  std::size_t digits = 0;
  for (; digits < most && !at_end(); ++digits, ++at_) {
    const char c = pattern_[at_];
    const unsigned digit = c >= '0' && c <= '9'   ? static_cast<unsigned>(c - '0')
                           : c >= 'a' && c <= 'f' ? static_cast<unsigned>(c - 'a' + 10)
                           : c >= 'A' && c <= 'F' ? static_cast<unsigned>(c - 'A' + 10)
                                                  : 99U;
    if (digit >= base) break;
    value = value * base + digit;
  }
  if (digits == 0) return std::nullopt;
  return value;
}

void PatternReader::complain(std::string complaint) {
  if (complaint_.empty()) complaint_ = std::move(complaint);
}

std::optional<Escape> read_character_escape(PatternReader& reader) {
  const std::size_t before = reader.position();
  const char32_t letter = reader.next();
  if (letter == 0 || letter >= 0x80) {
    if (letter == 0) reader.complain("a backslash at the end");
    return Escape{letter, {}};
  }
  const char c = static_cast<char>(letter);
  if (const auto character = simple_escape(c)) return Escape{*character, {}};
  if (c == 'p' || c == 'P') return Escape{std::nullopt, read_property(reader, c == 'P')};
  if (c == 'x') return Escape{read_hexadecimal(reader), {}};
  if (c == 'u') {
    const std::size_t digits = reader.position();
    const auto point = reader.number(16, 4);
    if (!point || reader.position() - digits != 4) reader.complain("\\u without four digits");
    return Escape{point.value_or(0), {}};
  }
  if (c == '0') {
    const auto point = reader.number(8, 2);
    return Escape{point.value_or(0), {}};
  }
  const bool capital = c >= 'A' && c <= 'Z';
  if (auto set = class_escape(capital ? static_cast<char>(c - 'A' + 'a') : c))
    return Escape{std::nullopt, capital ? set->complement() : *set};
  const bool punctuation = !(capital || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'));
  if (punctuation) return Escape{letter, {}};
  reader.go_back(before);
  return std::nullopt;
}

BracketClass read_bracket_class(PatternReader& reader, int depth) {
  BracketClass read;
  if (depth > deepest_class) {
    reader.complain("classes nested too deep");
    return read;
  }
  read.negated = reader.take("^");
  if (reader.sees("]")) reader.complain("an empty class");
  std::optional<CodePointSet> others;  // what stands before "&&"
  while (!reader.take("]")) {
    if (reader.at_end()) {
      reader.complain("a class without its \"]\"");
      return read;
    }
    if (reader.take("&&")) {
      others = others ? others->intersection(read.set) : read.set;
      read.set = {};
    } else {
      add_member(reader, depth, read.set);
    }
  }
  if (others) read.set = others->intersection(read.set);
  return read;
}

}  // namespace muster::tokenizer
