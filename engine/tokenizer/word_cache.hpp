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
  WordCache() : sets_(set_count) {}

  // Appends the ids of a word; false where it is not here.
  bool append(std::string_view word, std::uint64_t hash, std::vector<TokenId>& ids) const {
    const Set& set = sets_[hash & (set_count - 1)];
    for (const Entry& entry : set) {
      if (entry.hash != hash || entry.length != word.size()) continue;
      if (std::memcmp(entry.content.data(), word.data(), word.size()) != 0) continue;
      if (entry.count == 1) {  // by far the most
        TokenId id = 0;
        std::memcpy(&id, entry.content.data() + word.size(), sizeof id);
        ids.push_back(id);
        return true;
      }
      const std::size_t before = ids.size();
      ids.resize(before + entry.count);
      std::memcpy(ids.data() + before, entry.content.data() + word.size(), entry.count * sizeof(TokenId));
      return true;
    }
    return false;
  }

  // The older of the two words in its place goes. What does not fit is not kept.
  void keep(std::string_view word, std::uint64_t hash, std::span<const TokenId> ids) {
    if (ids.empty() || word.size() + ids.size_bytes() > room) return;
    Set& set = sets_[hash & (set_count - 1)];
    set[1] = set[0];
    Entry& entry = set[0];
    entry.hash = hash;
    entry.length = static_cast<std::uint8_t>(word.size());
    entry.count = static_cast<std::uint8_t>(ids.size());
    std::memcpy(entry.content.data(), word.data(), word.size());
    std::memcpy(entry.content.data() + word.size(), ids.data(), ids.size_bytes());
  }

 private:
  static constexpr std::size_t set_count = std::size_t{1} << 15U, room = 54;
  struct Entry {  // one line of the processor's cache
    std::uint64_t hash = 0;
    std::uint8_t length = 0, count = 0;
    std::array<char, room> content{};  // the word, then its ids
  };
  static_assert(sizeof(Entry) == 64);
  using Set = std::array<Entry, 2>;

  std::vector<Set> sets_;
};

}  // namespace muster::tokenizer
