#include "environment/words.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace muster::environment {
namespace {

bool is_part_of_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || static_cast<unsigned char>(c) >= 0x80;
}

const std::set<std::string>& empty_words() {
  static const std::set<std::string> words{
      "about", "also",  "been",  "being", "both",  "could", "does",  "doing", "each",  "even",  "ever",  "every", "from",
      "have",  "having", "here", "into",  "itself", "just", "like",  "made",  "make",  "many",  "more",  "most",  "much",
      "must",  "only",  "other", "over",  "same",  "should", "some", "such",  "than",  "that",  "their", "them",  "then",
      "there", "these", "they",  "this",  "those", "through", "under", "upon", "very", "want",  "well",  "were",  "what",
      "when",  "where", "which", "while", "will",  "with",  "without", "would", "your"};
  return words;
}

}  // namespace

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (!is_part_of_word(text[at])) continue;
    const std::size_t begin = at;
    while (at < text.size() &&
           (is_part_of_word(text[at]) || (text[at] == '\'' && at + 1 < text.size() && is_part_of_word(text[at + 1]))))
      ++at;
    words.push_back(to_lower(text.substr(begin, at - begin)));
  }
  return words;
}

std::set<std::string> content_words(std::string_view text) {
  constexpr std::size_t shortest = 4;
  std::set<std::string> words;
  for (std::string& word : words_of(text))
    if (word.size() >= shortest && !empty_words().contains(word)) words.insert(std::move(word));
  return words;
}

double share_within(const std::set<std::string>& a, const std::set<std::string>& b) {
  if (a.empty()) return 0;
  const auto common = std::ranges::count_if(a, [&](const std::string& word) { return b.contains(word); });
  return static_cast<double>(common) / static_cast<double>(a.size());
}

double jaccard(const std::set<std::string>& a, const std::set<std::string>& b) {
  const auto common = std::ranges::count_if(a, [&](const std::string& word) { return b.contains(word); });
  const auto all = std::ssize(a) + std::ssize(b) - common;
  return all == 0 ? 1 : static_cast<double>(common) / static_cast<double>(all);
}

int count_phrases(std::string_view text, std::initializer_list<std::string_view> phrases) {
  std::string line = " ";
  for (const std::string& word : words_of(text)) line += word + " ";
  int count = 0;
  for (const std::string_view phrase : phrases) {
    const std::string whole = " " + std::string(phrase) + " ";
    for (std::size_t at = line.find(whole); at != std::string::npos; at = line.find(whole, at + 1)) ++count;
  }
  return count;
}

}  // namespace muster::environment
