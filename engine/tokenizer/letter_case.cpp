#include "tokenizer/letter_case.hpp"

#include <algorithm>

#include "tokenizer/utf8.hpp"

namespace muster::tokenizer {
namespace {

constexpr char32_t capital_i_with_dot = 0x130;  // the only one whose lower case is two characters

char32_t lower_of(char32_t point) {
  const auto after = std::upper_bound(tables::lower.begin(), tables::lower.end(), point,
                                      [](char32_t value, const tables::LowerRun& run) { return value < run.first; });
  if (after == tables::lower.begin()) return point;
  const tables::LowerRun& run = *std::prev(after);
  if (point > run.last || (point - run.first) % run.step != 0) return point;
  return run.lower + (point - run.first);
}

}  // namespace

std::string lower_cased(std::string_view text) {
  std::string lowered;
  lowered.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const char32_t point = next_code_point(text, at);
    if (point == capital_i_with_dot)
      lowered += "i\xCC\x87";
    else
      append_code_point(lowered, lower_of(point));
  }
  return lowered;
}

CodePointSet in_any_case(const CodePointSet& members) {
  CodePointSet all = members;
  std::vector<CodePointRange> added;
  const auto groups = tables::same_case;
  for (std::size_t at = 0; at < groups.size(); at += 1 + groups[at]) {
    const auto group = groups.subspan(at + 1, groups[at]);
    if (std::none_of(group.begin(), group.end(), [&](char32_t point) { return members.contains(point); })) continue;
    for (const char32_t point : group) added.push_back({point, point});
  }
  all.add(added);
  return all;
}

bool has_long_case(std::u32string_view text) {
  std::u32string lowered(text);
  for (char32_t& point : lowered) point = lower_of(point);
  const auto records = tables::long_case;
  for (std::size_t at = 0; at < records.size(); at += 2 + records[at + 1]) {
    const auto folded = records.subspan(at + 2, records[at + 1]);
    if (text.find(records[at]) != text.npos) return true;
    if (lowered.find(std::u32string_view(folded.data(), folded.size())) != lowered.npos) return true;
  }
  return false;
}

}  // namespace muster::tokenizer
