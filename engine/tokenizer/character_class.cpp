#include "tokenizer/character_class.hpp"

#include <algorithm>
#include <array>

namespace muster::tokenizer {
namespace {

// In the order of tables::CategoryRun::category.
constexpr std::array<std::string_view, 29> category_names{"lu", "ll", "lt", "lm", "lo", "mn", "mc", "me", "nd", "nl",
                                                          "no", "pc", "pd", "ps", "pe", "pi", "pf", "po", "sm", "sc",
                                                          "sk", "so", "zs", "zl", "zp", "cc", "cf", "co", "cn"};

struct LongName {
  std::string_view name, category;
};
constexpr std::array<LongName, 9> long_names{{{"letter", "l"},
                                              {"mark", "m"},
                                              {"number", "n"},
                                              {"punctuation", "p"},
                                              {"symbol", "s"},
                                              {"separator", "z"},
                                              {"other", "c"},
                                              {"uppercaseletter", "lu"},
                                              {"lowercaseletter", "ll"}}};

std::string without_case_and_spaces(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c == ' ' || c == '-' || c == '_') continue;
    plain += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return plain;
}

// A category, or a group of them by its letter.
std::optional<CodePointSet> category_class(std::string_view name) {
  CodePointSet members;
  bool known = false;
  for (std::size_t category = 0; category < category_names.size(); ++category)
    known = known || category_names[category].starts_with(name);
  if (!known || name.empty()) return std::nullopt;
  std::vector<CodePointRange> ranges;
  for (std::size_t i = 0; i < tables::categories.size(); ++i) {
    const auto& run = tables::categories[i];
    if (!category_names.at(run.category).starts_with(name)) continue;
    const char32_t last = i + 1 < tables::categories.size() ? tables::categories[i + 1].first - 1 : last_code_point;
    ranges.push_back({run.first, last});
  }
  members.add(ranges);
  return members;
}

std::optional<CodePointSet> named(std::span<const tables::NamedRanges> list, std::string_view name) {
  for (const auto& entry : list)
    if (entry.name == name) return CodePointSet(entry.ranges);
  return std::nullopt;
}

}  // namespace

void CodePointSet::add(char32_t first, char32_t last) {
  const CodePointRange range{first, last};
  add(std::span(&range, 1));
}

void CodePointSet::add(std::span<const CodePointRange> ranges) {
  ranges_.insert(ranges_.end(), ranges.begin(), ranges.end());
  std::sort(ranges_.begin(), ranges_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<CodePointRange> merged;
  for (const CodePointRange& range : ranges_) {
    if (!merged.empty() && range.first <= merged.back().last + 1)
      merged.back().last = std::max(merged.back().last, range.last);
    else
      merged.push_back(range);
  }
  ranges_ = std::move(merged);
}

CodePointSet CodePointSet::complement() const {
  CodePointSet others;
  char32_t next = 0;
  for (const CodePointRange& range : ranges_) {
    if (range.first > next) others.ranges_.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= last_code_point) others.ranges_.push_back({next, last_code_point});
  return others;
}

CodePointSet CodePointSet::intersection(const CodePointSet& other) const {
  CodePointSet union_of_others = complement();
  union_of_others.add(other.complement());
  return union_of_others.complement();
}

bool CodePointSet::contains(char32_t point) const { return holds(ranges_, point); }

bool holds(std::span<const CodePointRange> ranges, char32_t point) {
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), point,
                                      [](char32_t value, const CodePointRange& range) { return value < range.first; });
  return after != ranges.begin() && point <= std::prev(after)->last;
}

std::optional<CodePointSet> property_class(std::string_view name) {
  std::string plain = without_case_and_spaces(name);
  for (const LongName& entry : long_names)
    if (entry.name == plain) plain = entry.category;
  if (plain == "any") return CodePointSet().complement();
  if (plain.size() <= 2)
    if (auto category = category_class(plain)) return category;
  return named(tables::scripts, plain);
}

std::optional<CodePointSet> bracket_class(std::string_view name) {
  if (name == "cntrl") return category_class("cc");
  if (name == "alnum") {
    auto members = named(tables::pattern_classes, "alpha");
    members->add(*named(tables::pattern_classes, "digit"));
    return members;
  }
  return named(tables::pattern_classes, name);
}

std::string known_properties() {
  std::string names = "the general categories (L, Lu, N, P, …), Any";
  for (const auto& script : tables::scripts) names += ", " + std::string(script.name);
  return names;
}

}  // namespace muster::tokenizer
