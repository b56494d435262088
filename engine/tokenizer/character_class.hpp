// Sets of code points, and those that patterns and added tokens ask about.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/unicode_tables.hpp"

namespace muster::tokenizer {

constexpr char32_t last_code_point = 0x10FFFF;

// Sorted ranges that neither touch nor overlap.
class CodePointSet {
 public:
  CodePointSet() = default;
  explicit CodePointSet(std::span<const CodePointRange> ranges) { add(ranges); }

  void add(char32_t first, char32_t last);
  void add(std::span<const CodePointRange> ranges);
  void add(const CodePointSet& other) { add(other.ranges_); }
  CodePointSet complement() const;
  CodePointSet intersection(const CodePointSet& other) const;
  bool contains(char32_t point) const;
  bool empty() const { return ranges_.empty(); }
  const std::vector<CodePointRange>& ranges() const { return ranges_; }

 private:
  std::vector<CodePointRange> ranges_;
};

// Whether sorted ranges that do not overlap hold a code point.
bool holds(std::span<const CodePointRange> ranges, char32_t point);

// \p{name}: a general category ("L", "Lu", "Letter"), a script, or Any. Case, spaces, - and _ do not count.
std::optional<CodePointSet> property_class(std::string_view name);

// [[:name:]]; also "word", "space" and "digit" for \w, \s and \d.
std::optional<CodePointSet> bracket_class(std::string_view name);

// The names property_class takes, for messages.
std::string known_properties();

}  // namespace muster::tokenizer
