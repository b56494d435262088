#include "reward/answer_parts.hpp"

#include <algorithm>
#include <string>

#include "base/text.hpp"
#include "reward/math/check.hpp"
#include "reward/math/last_number.hpp"

namespace muster::reward {
namespace {

constexpr bool belongs_to_a_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

// Between two characters of one word.
bool splits_a_word(std::string_view text, std::size_t at) {
  return at > 0 && at < text.size() && belongs_to_a_word(text[at - 1]) && belongs_to_a_word(text[at]);
}

}  // namespace

std::optional<double> is_exact(const Answered& answered) {
  return trim(answered.completion) == trim(*answered.question->answer) ? 1 : 0;
}

std::optional<double> contains_answer(const Answered& answered) {
  const std::string_view text = answered.completion, answer = trim(*answered.question->answer);
  if (answer.empty()) return std::nullopt;
  for (std::size_t at = text.find(answer); at != std::string_view::npos; at = text.find(answer, at + 1))
    if (!splits_a_word(text, at) && !splits_a_word(text, at + answer.size())) return 1;
  return 0;
}

std::optional<double> has_last_number(const Answered& answered) {
  const auto right = math::last_number(*answered.question->answer);
  if (!right) return std::nullopt;
  return math::last_number(answered.completion) == right ? 1 : 0;
}

std::optional<double> is_mathematically_equal(const Answered& answered) {
  switch (math::check(*answered.question->answer, answered.completion)) {
    case math::Verdict::equal:
      return 1;
    case math::Verdict::different:
      return 0;
    case math::Verdict::unknown:
      break;
  }
  return std::nullopt;
}

std::optional<double> share_of_characters(const Answered& answered) {
  const std::string_view given = trim(answered.completion), right = trim(*answered.question->answer);
  const std::size_t longer = std::max(given.size(), right.size()), shorter = std::min(given.size(), right.size());
  if (longer == 0) return 1;
  std::size_t same = 0;
  for (std::size_t i = 0; i < shorter; ++i) same += given[i] == right[i];
  return static_cast<double>(same) / static_cast<double>(longer);
}

}  // namespace muster::reward
