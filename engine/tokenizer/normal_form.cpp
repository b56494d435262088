#include "tokenizer/normal_form.hpp"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "tokenizer/unicode_tables.hpp"
#include "tokenizer/utf8.hpp"

namespace muster::tokenizer {
namespace {

// Hangul syllables are arithmetic: 19 leading consonants × 21 vowels × (none or 27 trailing consonants).
constexpr char32_t syllable_base = 0xAC00, leading_base = 0x1100, vowel_base = 0x1161, trailing_base = 0x11A7;
constexpr char32_t leading_count = 19, vowel_count = 21, trailing_count = 28;
constexpr char32_t syllable_count = leading_count * vowel_count * trailing_count;

bool is_syllable(char32_t point) { return point >= syllable_base && point < syllable_base + syllable_count; }

// The tables of unicode_tables.hpp, arranged for single questions.
class Decompositions {
 public:
  Decompositions() {
    for (std::size_t at = 0; at < tables::canonical.size(); at += 2 + length_at(at)) {
      const char32_t* step = &tables::canonical[at + 2];
      canonical_.emplace(tables::canonical[at], std::u32string_view(step, length_at(at)));
      if ((tables::canonical[at + 1] & 0x100U) != 0) composed_.emplace(pair(step[0], step[1]), tables::canonical[at]);
    }
    for (std::size_t at = 0; at < tables::compatible.size(); at += 2 + tables::compatible[at + 1])
      compatible_.emplace(tables::compatible[at],
                          std::u32string_view(&tables::compatible[at + 2], tables::compatible[at + 1]));
    note_moving_points();
  }

  // Whether a character neither changes in any form nor goes into the one before it. It may still take in the next one.
  bool is_inert(char32_t point) const { return point < 0xA0 || !moving_[point]; }

  std::uint8_t place(char32_t point) const {
    const auto after = std::upper_bound(tables::marks.begin(), tables::marks.end(), point,
                                        [](char32_t value, const tables::MarkRun& run) { return value < run.first; });
    if (after == tables::marks.begin() || point > std::prev(after)->last) return 0;
    return std::prev(after)->place;
  }

  void append(char32_t point, bool compatible, std::u32string& text) const {
    if (is_syllable(point)) {
      const char32_t index = point - syllable_base;
      text += leading_base + index / (vowel_count * trailing_count);
      text += vowel_base + index % (vowel_count * trailing_count) / trailing_count;
      if (index % trailing_count != 0) text += trailing_base + index % trailing_count;
      return;
    }
    if (compatible) {
      if (const auto whole = compatible_.find(point); whole != compatible_.end()) {
        text += whole->second;
        return;
      }
    }
    const auto step = canonical_.find(point);
    if (step == canonical_.end()) {
      text += point;
      return;
    }
    for (const char32_t part : step->second) append(part, compatible, text);
  }

  // The character that two others make, or 0.
  char32_t composed(char32_t first, char32_t second) const {
    if (first >= leading_base && first < leading_base + leading_count && second >= vowel_base &&
        second < vowel_base + vowel_count)
      return syllable_base + ((first - leading_base) * vowel_count + (second - vowel_base)) * trailing_count;
    if (is_syllable(first) && (first - syllable_base) % trailing_count == 0 && second > trailing_base &&
        second < trailing_base + trailing_count)
      return first + (second - trailing_base);
    const auto found = composed_.find(pair(first, second));
    return found == composed_.end() ? 0 : found->second;
  }

 private:
  static std::size_t length_at(std::size_t at) { return tables::canonical[at + 1] & 0xFFU; }
  static std::uint64_t pair(char32_t first, char32_t second) { return std::uint64_t{first} << 32U | second; }

  void note_moving_points() {
    moving_.resize(0x110000);
    for (const auto& entry : canonical_) moving_[entry.first] = true;
    for (const auto& entry : compatible_) moving_[entry.first] = true;
    for (const auto& entry : composed_) moving_[entry.first & 0xFFFFFFFFU] = true;
    for (const auto& run : tables::marks)
      for (char32_t point = run.first; point <= run.last; ++point) moving_[point] = true;
    for (char32_t point = leading_base; point < trailing_base + trailing_count; ++point) moving_[point] = true;
    for (char32_t point = syllable_base; point < syllable_base + syllable_count; ++point) moving_[point] = true;
  }

  std::unordered_map<char32_t, std::u32string_view> canonical_, compatible_;
  std::unordered_map<std::uint64_t, char32_t> composed_;
  std::vector<bool> moving_;
};

const Decompositions& decompositions() {
  static const Decompositions table;
  return table;
}

// Puts the marks after a character in order; those of equal place stay as they are.
void order_marks(std::u32string& text) {
  const Decompositions& table = decompositions();
  for (std::size_t begin = 0; begin < text.size();) {
    if (table.place(text[begin]) == 0) {
      ++begin;
      continue;
    }
    std::size_t end = begin;
    while (end < text.size() && table.place(text[end]) != 0) ++end;
    std::stable_sort(text.begin() + static_cast<std::ptrdiff_t>(begin), text.begin() + static_cast<std::ptrdiff_t>(end),
                     [&](char32_t left, char32_t right) { return table.place(left) < table.place(right); });
    begin = end;
  }
}

// Each mark goes into the last character before it that does not move, unless a mark of the same or a higher place
// stands between.
void compose(std::u32string& text) {
  const Decompositions& table = decompositions();
  std::size_t written = 0, base = text.size();  // base: where the last character that does not move was written
  int last_place = -1;                          // of what was written after it; -1: nothing was
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char32_t point = text[i];
    const int place = table.place(point);
    if (base < written && last_place < (place == 0 ? 0 : place)) {
      if (const char32_t both = table.composed(text[base], point); both != 0) {
        text[base] = both;
        continue;
      }
    }
    if (place == 0) {
      base = written;
      last_place = -1;
    } else {
      last_place = place;
    }
    text[written++] = point;
  }
  text.resize(written);
}

void append_form(std::u32string& segment, NormalForm form, std::string& result) {
  order_marks(segment);
  if (form.composed) compose(segment);
  for (const char32_t point : segment) append_code_point(result, point);
  segment.clear();
}

}  // namespace

std::string normal_form(std::string_view text, NormalForm form) {
  const Decompositions& table = decompositions();
  std::string result;
  result.reserve(text.size());
  std::u32string segment;  // an inert character and all up to the next one
  std::size_t copied = 0;  // up to where text is in the result
  std::size_t before = 0;  // where the last inert character begins
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    if (table.is_inert(next_code_point(text, at))) {
      before = begin;
      continue;
    }
    before = std::max(before, copied);
    result += text.substr(copied, before - copied);
    std::size_t end = before;
    for (std::size_t look = before; look < text.size(); end = look) {
      const char32_t point = next_code_point(text, look);
      if (end > begin && table.is_inert(point)) break;
      table.append(point, form.compatible, segment);
    }
    append_form(segment, form, result);
    at = copied = end;
  }
  result += text.substr(copied);
  return result;
}

}  // namespace muster::tokenizer
