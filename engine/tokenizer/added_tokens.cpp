#include "tokenizer/added_tokens.hpp"

#include <algorithm>

#include "tokenizer/character_class.hpp"
#include "tokenizer/utf8.hpp"

namespace muster::tokenizer {
namespace {

bool ends_with(std::string_view text, std::span<const CodePointRange> kind) {
  if (text.empty()) return false;
  std::size_t at = previous_character(text, text.size());
  return holds(kind, next_code_point(text, at));
}

bool begins_with(std::string_view text, std::span<const CodePointRange> kind) {
  std::size_t at = 0;
  return !text.empty() && holds(kind, next_code_point(text, at));
}

}  // namespace

void AddedTokenFinder::add(std::string_view text, AddedToken token) {
  const auto first = static_cast<unsigned char>(text.front());
  if (!starts_[first]) start_bytes_ += text.front();
  starts_[first] = true;
  std::uint32_t node = 0;
  for (const char byte : text) {
    auto& next = nodes_[node].next;
    const auto edge = std::find_if(next.begin(), next.end(),
                                   [&](const auto& one) { return one.first == static_cast<unsigned char>(byte); });
    if (edge != next.end()) {
      node = edge->second;
      continue;
    }
    const auto fresh = static_cast<std::uint32_t>(nodes_.size());
    next.emplace_back(static_cast<unsigned char>(byte), fresh);
    nodes_.emplace_back();
    node = fresh;
  }
  nodes_[node].token = static_cast<std::int32_t>(tokens_.size());
  tokens_.push_back(std::move(token));
}

std::size_t AddedTokenFinder::next_start(std::string_view text, std::size_t from) const {
  if (start_bytes_.size() == 1) return std::min(text.find(start_bytes_[0], from), text.size());
  while (from < text.size() && !starts_[byte_at(text, from)]) ++from;
  return from;
}

bool AddedTokenFinder::find(std::string_view text, Found& found) const {
  if (tokens_.empty()) return false;
  for (std::size_t begin = next_start(text, found.end); begin < text.size(); begin = next_start(text, begin + 1)) {
    std::int32_t token = -1;
    std::size_t end = begin;
    std::uint32_t node = 0;
    for (std::size_t at = begin; at < text.size(); ++at) {
      const auto& next = nodes_[node].next;
      const auto edge =
          std::find_if(next.begin(), next.end(), [&](const auto& one) { return one.first == byte_at(text, at); });
      if (edge == next.end()) break;
      node = edge->second;
      if (nodes_[node].token >= 0) {
        token = nodes_[node].token;
        end = at + 1;
      }
    }
    if (token < 0) continue;
    found = {begin, end, static_cast<std::size_t>(token)};
    return true;
  }
  return false;
}

bool AddedTokenFinder::widened(std::string_view text, const Found& found, std::size_t done, Span& span) const {
  const AddedToken& token = tokens_[found.token];
  const std::string_view before = text.substr(0, found.begin), after = text.substr(found.end);
  if (token.single_word && (ends_with(before, tables::token_word) || begins_with(after, tables::token_word)))
    return false;
  span = {found.begin, found.end};
  if (token.lstrip) {
    while (ends_with(text.substr(0, span.begin), tables::token_space))
      span.begin = previous_character(text, span.begin);
    span.begin = std::max(span.begin, done);  // the token before may have taken some of it
  }
  if (token.rstrip)
    while (begins_with(text.substr(span.end), tables::token_space)) span.end += character_length(text[span.end]);
  return true;
}

}  // namespace muster::tokenizer
