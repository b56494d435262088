// Which two tokens become one, and how early.
#pragma once

#include <cstdint>
#include <vector>

#include "tokenizer/token_id.hpp"

namespace muster::tokenizer {

struct Merge {
  std::uint32_t rank = 0xFFFFFFFF;  // lower goes first; the largest number: the two do not merge
  TokenId id = 0;                   // what they become

  bool exists() const { return rank != 0xFFFFFFFF; }
};

class MergeTable {
 public:
  explicit MergeTable(std::size_t expected) {
    std::size_t slots = 64;
    while (slots < expected + expected / 2) slots *= 2;
    slots_.resize(slots);
  }

  // A pair that is there already gets the new rank.
  void add(TokenId left, TokenId right, Merge merge) {
    const std::uint64_t key = key_of(left, right);
    std::size_t slot = place_of(key);
    while (slots_[slot].key != no_key && slots_[slot].key != key) slot = (slot + 1) & (slots_.size() - 1);
    slots_[slot] = {key, merge};
  }

  Merge find(TokenId left, TokenId right) const {
    const std::uint64_t key = key_of(left, right);
    std::size_t slot = place_of(key);
    while (slots_[slot].key != key) {
      if (slots_[slot].key == no_key) return {};
      slot = (slot + 1) & (slots_.size() - 1);
    }
    return slots_[slot].merge;
  }

 private:
  static constexpr std::uint64_t no_key = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t key = no_key;
    Merge merge;
  };

  static std::uint64_t key_of(TokenId left, TokenId right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32U | static_cast<std::uint32_t>(right);
  }
  std::size_t place_of(std::uint64_t key) const {
    key *= 0x9E3779B97F4A7C15U;
    return (key ^ key >> 32U) & (slots_.size() - 1);
  }

  std::vector<Slot> slots_;  // a power of two, at most two thirds full
};

}  // namespace muster::tokenizer
