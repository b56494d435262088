#include "reward/shape_parts.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <vector>

#include "base/text.hpp"
#include "spec/model/adapters/path_pattern.hpp"

namespace muster::reward {
namespace {

std::vector<std::string> words_of(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n\v\f";
  std::vector<std::string> words;
  while (true) {
    const std::size_t begin = text.find_first_not_of(blanks);
    if (begin == std::string_view::npos) return words;
    text.remove_prefix(begin);
    const std::size_t size = std::min(text.find_first_of(blanks), text.size());
    words.push_back(to_lower(text.substr(0, size)));
    text.remove_prefix(size);
  }
}

}  // namespace

Result<JudgeOne> match_format(const std::string& expression, spec::FormatMatch match) {
  const bool anywhere = match == spec::FormatMatch::search;
  auto pattern = spec::PathPattern::compile(expression);  // by itself first, for its own message
  if (pattern && anywhere) pattern = spec::PathPattern::compile("(?s:.*?)(?:" + expression + ")(?s:.*)");
  if (!pattern)
    return bad_input("reward.format cannot be read: " + pattern.error().what, "write a regular expression of PCRE2");
  return JudgeOne([pattern = std::move(*pattern)](const Answered& answered) -> std::optional<double> {
    const auto matches = pattern.matches(answered.completion);
    if (!matches) return std::nullopt;
    return *matches ? 1 : 0;
  });
}

std::optional<double> overlong_penalty(const Answered& answered, std::optional<std::int64_t> margin) {
  if (answered.room < 1) throw std::logic_error("an answer without room");
  const std::int64_t width = margin.value_or(std::max<std::int64_t>(1, answered.room / 5));
  const std::int64_t over = answered.tokens - (answered.room - width);
  return std::clamp(static_cast<double>(-over) / static_cast<double>(width), -1.0, 0.0);
}

std::optional<double> repetition_penalty(const Answered& answered, std::int64_t words) {
  const std::vector<std::string> all = words_of(answered.completion);
  const auto length = static_cast<std::size_t>(words);
  if (all.size() < length) return 0;
  std::set<std::vector<std::string>> seen;
  const std::size_t runs = all.size() - length + 1;
  for (std::size_t i = 0; i < runs; ++i)
    seen.emplace(all.begin() + static_cast<std::ptrdiff_t>(i), all.begin() + static_cast<std::ptrdiff_t>(i + length));
  return static_cast<double>(seen.size()) / static_cast<double>(runs) - 1;
}

}  // namespace muster::reward
