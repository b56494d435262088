#include "checkpoint/score_merges.hpp"

#include <algorithm>
#include <tuple>

namespace muster::checkpoint {
namespace {

bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

struct Candidate {
  std::string_view left, right;
  double score;
  std::size_t left_length, right_length;  // in characters
  std::size_t left_id, right_id;
};

}  // namespace

std::vector<std::pair<std::string_view, std::string_view>> merges_from_scores(const GgufVocabulary& vocabulary) {
  std::unordered_map<std::string_view, std::size_t> ids;
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) ids.emplace(vocabulary.tokens[i], i);
  std::vector<Candidate> found;
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const std::string_view token = vocabulary.tokens[i];
    const auto length = static_cast<std::size_t>(std::ranges::count_if(token, begins_character));
    const std::size_t first = found.size();
    std::size_t characters = 0;
    for (std::size_t at = 1; at < token.size(); ++at) {
      if (!begins_character(token[at])) continue;
      ++characters;
      const auto left = ids.find(token.substr(0, at)), right = ids.find(token.substr(at));
      if (left == ids.end() || right == ids.end()) continue;
      found.push_back({left->first, right->first, vocabulary.scores[i], characters, length - characters, left->second,
                       right->second});
    }
    std::sort(found.begin() + static_cast<std::ptrdiff_t>(first), found.end(), [](const auto& one, const auto& other) {
      return std::tie(one.left_id, one.right_id) < std::tie(other.left_id, other.right_id);
    });
  }
  std::ranges::stable_sort(found, [](const Candidate& one, const Candidate& other) {
    return std::tie(one.score, one.left_length, one.right_length) >
           std::tie(other.score, other.left_length, other.right_length);
  });
  std::vector<std::pair<std::string_view, std::string_view>> merges;
  merges.reserve(found.size());
  for (const Candidate& candidate : found) merges.emplace_back(candidate.left, candidate.right);
  return merges;
}

}  // namespace muster::checkpoint
