// The ids of words that were seen lately. Texts repeat their words: most are found here.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/token_id.hpp"

namespace muster::tokenizer {

class WordCache {
 public:
  WordCache() : sets_(first_sets) {}

  // Appends the ids of a word; false where it is not here.
  bool append(std::string_view word, std::uint64_t hash, std::vector<TokenId>& ids) const {
    const Set& set = sets_[hash & (sets_.size() - 1)];
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
    if (++kept_ > sets_.size() && sets_.size() < most_sets) grow();
    Entry& entry = make_room(hash);
    entry.hash = hash;
    entry.length = static_cast<std::uint8_t>(word.size());
    entry.count = static_cast<std::uint8_t>(ids.size());
    std::memcpy(entry.content.data(), word.data(), word.size());
    std::memcpy(entry.content.data() + word.size(), ids.data(), ids.size_bytes());
  }

 private:
  // Small at first: a single prompt needs little, and clearing memory takes time.
  static constexpr std::size_t first_sets = std::size_t{1} << 9U, most_sets = std::size_t{1} << 15U, room = 54;
  struct Entry {  // one line of the processor's cache
    std::uint64_t hash = 0;
    std::uint8_t length = 0, count = 0;
    std::array<char, room> content{};  // the word, then its ids
  };
  static_assert(sizeof(Entry) == 64);
  using Set = std::array<Entry, 2>;

  Entry& make_room(std::uint64_t hash) {
    Set& set = sets_[hash & (sets_.size() - 1)];
    set[1] = set[0];
    return set[0];
  }

  void grow() {
    const std::vector<Set> old = std::exchange(sets_, std::vector<Set>(sets_.size() * 4));
    for (const Set& set : old)
      for (const Entry& entry : {set[1], set[0]})
        if (entry.count > 0) make_room(entry.hash) = entry;
  }

  std::vector<Set> sets_;  // a power of two
  std::size_t kept_ = 0;
};

}  // namespace muster::tokenizer
