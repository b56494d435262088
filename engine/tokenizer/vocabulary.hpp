// Texts and their ids, found by either.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/token_id.hpp"

namespace muster::tokenizer {

// A hash of short texts that is cheap to compute.
std::uint64_t hash_of(std::string_view text);

class Vocabulary {
 public:
  Vocabulary();

  // False where the text or the id is there already.
  bool add(std::string_view text, TokenId id);
  std::optional<TokenId> find(std::string_view text) const { return find(text, hash_of(text)); }
  std::optional<TokenId> find(std::string_view text, std::uint64_t hash) const;
  // The text of an id; nothing for an unknown one.
  std::optional<std::string_view> text(TokenId id) const;
  // How many there are, and one more than the largest id.
  std::size_t size() const { return count_; }
  TokenId end() const { return static_cast<TokenId>(texts_.size()); }

 private:
  struct Slot {
    std::uint32_t tag = 0;  // upper half of the hash
    TokenId id = -1;        // -1: free
  };
  struct Place {
    std::uint64_t begin = 0;
    std::int64_t length = -1;  // -1: no such id
  };

  void grow();
  std::string_view at(TokenId id) const {
    const Place& place = texts_[static_cast<std::size_t>(id)];
    return std::string_view(letters_).substr(place.begin, static_cast<std::size_t>(place.length));
  }

  std::string letters_;  // all texts, one after the other
  std::vector<Place> texts_;
  std::vector<Slot> slots_;  // a power of two, at most half full
  std::size_t count_ = 0;
};

}  // namespace muster::tokenizer
