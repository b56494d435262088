// The ids of words that were seen lately. Texts repeat their words: most are found here.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/token_id.hpp"

namespace muster::tokenizer {

class WordCache {
 public:
  static constexpr std::size_t longest_word = 21, most_ids = 8;

  WordCache() : entries_(entry_count) {}

  // The ids of a word of at most longest_word bytes; empty where it is not here.
  std::span<const TokenId> find(std::string_view word, std::uint64_t hash) const {
    const Entry& entry = entries_[hash & (entry_count - 1)];
    if (entry.hash != hash || entry.length != word.size() ||
        std::memcmp(entry.word.data(), word.data(), word.size()) != 0)
      return {};
    return std::span(entry.ids).first(entry.count);
  }

  // Takes the place of what was there; a word of more than most_ids ids is not kept.
  void keep(std::string_view word, std::uint64_t hash, std::span<const TokenId> ids) {
    if (ids.empty() || ids.size() > most_ids) return;
    Entry& entry = entries_[hash & (entry_count - 1)];
    entry.hash = hash;
    entry.length = static_cast<std::uint8_t>(word.size());
    entry.count = static_cast<std::uint8_t>(ids.size());
    std::copy(word.begin(), word.end(), entry.word.begin());
    std::copy(ids.begin(), ids.end(), entry.ids.begin());
  }

 private:
  static constexpr std::size_t entry_count = std::size_t{1} << 15U;
  struct Entry {  // one line of the processor's cache
    std::uint64_t hash = 0;
    std::uint8_t length = 0, count = 0;
    std::array<char, longest_word + 1> word{};
    std::array<TokenId, most_ids> ids{};
  };
  static_assert(sizeof(Entry) == 64);

  std::vector<Entry> entries_;
};

}  // namespace muster::tokenizer
