#include "tokenizer/byte_pairs.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tokenizer/byte_alphabet.hpp"
#include "tokenizer/utf8.hpp"

namespace muster::tokenizer {
namespace {

// Up to here looking at all neighbours for the best one is faster than keeping them in order.
constexpr std::size_t longest_short_word = 100;

// The lowest rank on top; of equal ones the leftmost.
bool goes_later(const BytePairWorkspace::Candidate& a, const BytePairWorkspace::Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.place > b.place;
}

}  // namespace

BytePairs::BytePairs(std::shared_ptr<const Vocabulary> vocabulary, MergeTable merges, BytePairOptions options)
    : vocabulary_(std::move(vocabulary)), merges_(std::move(merges)), options_(options) {
  if (options_.byte_fallback)
    for (std::size_t byte = 0; byte < 256; ++byte) fallback_[byte] = vocabulary_->find(fmt::format("<0x{:02X}>", byte));
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    if (options_.words_are_bytes)
      byte_starts_[byte] = start_of(character_of(static_cast<unsigned char>(byte)));
    else if (byte < 0x80)
      byte_starts_[byte] = start_of({&c, 1});
  }
  if (options_.words_are_bytes && options_.ignore_merges) make_byte_vocabulary();
  if (options_.words_are_bytes) make_byte_merges();
}

void BytePairs::make_byte_merges() {
  for (const Start& start : byte_starts_)
    if (start.kind != Start::Kind::token) return;
  byte_merges_.reserve(256 * 256);
  for (const Start& left : byte_starts_)
    for (const Start& right : byte_starts_) byte_merges_.push_back(merges_.find(left.token, right.token));
}

void BytePairs::begin_merges(std::string_view word, BytePairWorkspace& workspace) const {
  const auto& tokens = workspace.tokens;
  auto& merges = workspace.merges;
  merges.resize(tokens.size() - 1);
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i)
    merges[i] = byte_merges_.empty() ? merges_.find(tokens[i], tokens[i + 1])
                                     : byte_merges_[std::size_t{byte_at(word, i)} << 8U | byte_at(word, i + 1)];
}

void BytePairs::make_byte_vocabulary() {
  byte_vocabulary_.emplace();
  for (TokenId id = 0; id < vocabulary_->end(); ++id) {
    const auto text = vocabulary_->text(id);
    if (!text) continue;
    if (const auto bytes = bytes_of(*text)) byte_vocabulary_->add(*bytes, id);
  }
}

BytePairs::Start BytePairs::start_of(std::string_view character) const {
  if (const auto id = vocabulary_->find(character)) return {Start::Kind::token, *id, {}};
  Start start;
  if (!options_.byte_fallback) return start;
  for (const char byte : character) {
    const auto id = fallback_[static_cast<unsigned char>(byte)];
    if (!id) return {};
    start.bytes.push_back(*id);
  }
  start.kind = Start::Kind::bytes;
  return start;
}

// Note [Unknown characters]: an unknown character is put down only when a known one follows, so that several can become
// one. Bytes that stand for a character do not count as such: they come before an unknown one that still waits.
template <class NextStart>
void BytePairs::collect(NextStart next, std::vector<TokenId>& tokens) const {
  bool waiting = false;
  while (const Start* start = next()) {
    if (start->kind == Start::Kind::bytes) {
      tokens.insert(tokens.end(), start->bytes.begin(), start->bytes.end());
    } else if (start->kind == Start::Kind::token) {
      if (waiting) tokens.push_back(*options_.unknown);
      waiting = false;
      tokens.push_back(start->token);
    } else if (options_.unknown) {
      if (waiting && !options_.fuse_unknown) tokens.push_back(*options_.unknown);
      waiting = true;
    }
  }
  if (waiting) tokens.push_back(*options_.unknown);
}

void BytePairs::begin_word(std::string_view word, std::vector<TokenId>& tokens) const {
  std::size_t at = 0;
  if (options_.words_are_bytes)
    return collect([&] { return at < word.size() ? &byte_starts_[byte_at(word, at++)] : nullptr; }, tokens);
  Start other;
  collect(
      [&]() -> const Start* {
        if (at >= word.size()) return nullptr;
        if (byte_at(word, at) < 0x80) return &byte_starts_[byte_at(word, at++)];
        const std::size_t length = character_length(word[at]);
        other = start_of(word.substr(at, length));
        at += length;
        return &other;
      },
      tokens);
}

void BytePairs::encode(std::string_view word, BytePairWorkspace& workspace, std::vector<TokenId>& ids) const {
  const std::uint64_t hash = hash_of(word);
  if (workspace.cache.append(word, hash, ids)) return;
  const std::size_t before = ids.size();
  const Vocabulary& whole_words = byte_vocabulary_ ? *byte_vocabulary_ : *vocabulary_;
  if (const auto whole = options_.ignore_merges ? whole_words.find(word, hash) : std::nullopt) {
    ids.push_back(*whole);
  } else {
    workspace.tokens.clear();
    begin_word(word, workspace.tokens);
    if (workspace.tokens.size() <= longest_short_word)
      merge_short(word, workspace);
    else
      merge_long(workspace);
    ids.insert(ids.end(), workspace.tokens.begin(), workspace.tokens.end());
  }
  workspace.cache.keep(word, hash, std::span(ids).subspan(before));
}

void BytePairs::merge_short(std::string_view word, BytePairWorkspace& workspace) const {
  auto& tokens = workspace.tokens;
  auto& merges = workspace.merges;
  if (tokens.size() < 2) return;
  begin_merges(word, workspace);
  while (!merges.empty()) {
    const auto best = std::min_element(merges.begin(), merges.end(), [](auto& a, auto& b) { return a.rank < b.rank; });
    if (!best->exists()) return;
    const auto place = best - merges.begin();
    const auto index = static_cast<std::size_t>(place);
    tokens[index] = best->id;
    tokens.erase(tokens.begin() + place + 1);
    merges.erase(best);
    if (index > 0) merges[index - 1] = merges_.find(tokens[index - 1], tokens[index]);
    if (index < merges.size()) merges[index] = merges_.find(tokens[index], tokens[index + 1]);
  }
}

void BytePairs::offer(BytePairWorkspace& workspace, std::int32_t place) const {
  const auto& link = workspace.links[static_cast<std::size_t>(place)];
  if (link.next < 0) return;
  const Merge merge = merges_.find(link.token, workspace.links[static_cast<std::size_t>(link.next)].token);
  if (!merge.exists()) return;
  workspace.queue.push_back({merge.rank, place, merge.id});
}

void BytePairs::merge_long(BytePairWorkspace& workspace) const {
  auto& links = workspace.links;
  auto& queue = workspace.queue;
  const auto count = static_cast<std::int32_t>(workspace.tokens.size());
  links.clear();
  queue.clear();
  for (std::int32_t i = 0; i < count; ++i)
    links.push_back({workspace.tokens[static_cast<std::size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1, true});
  for (std::int32_t i = 0; i < count; ++i) offer(workspace, i);
  std::make_heap(queue.begin(), queue.end(), goes_later);
  const auto offer_in_order = [&](std::int32_t place) {
    const std::size_t before = queue.size();
    offer(workspace, place);
    if (queue.size() > before) std::push_heap(queue.begin(), queue.end(), goes_later);
  };
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), goes_later);
    const BytePairWorkspace::Candidate best = queue.back();
    queue.pop_back();
    auto& left = links[static_cast<std::size_t>(best.place)];
    if (!left.alive || left.next < 0) continue;
    auto& right = links[static_cast<std::size_t>(left.next)];
    const Merge now = merges_.find(left.token, right.token);
    if (!now.exists() || now.id != best.id) continue;  // one of the two has merged since
    left.token = best.id;
    left.next = right.next;
    right.alive = false;
    if (left.next >= 0) links[static_cast<std::size_t>(left.next)].previous = best.place;
    if (left.previous >= 0) offer_in_order(left.previous);
    offer_in_order(best.place);
  }
  workspace.tokens.clear();
  for (const auto& link : links)
    if (link.alive) workspace.tokens.push_back(link.token);
}

}  // namespace muster::tokenizer
