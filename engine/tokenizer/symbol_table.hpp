// Code points sorted into at most 256 kinds that a pattern cannot tell apart, so that PCRE2 matches bytes and its own
// idea of Unicode never matters.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tokenizer/character_class.hpp"

namespace muster::tokenizer {

class SymbolTable {
 public:
  // At most 65,536 sets. Nothing where they distinguish more than 256 kinds.
  static std::optional<SymbolTable> build(std::span<const CodePointSet> sets);

  char symbol(char32_t point) const {
    return static_cast<char>(pages_[static_cast<std::size_t>(page_of_[point >> 8U]) << 8U | (point & 0xFFU)]);
  }
  // The symbols that make up a set of those it was built from.
  const std::vector<std::uint8_t>& symbols_of(std::size_t set) const { return members_[set]; }
  std::size_t count() const { return count_; }

 private:
  void note_page(std::size_t page, const std::array<std::uint8_t, 256>& symbols);

  std::array<std::uint16_t, 0x1100> page_of_{};
  std::vector<std::uint8_t> pages_;
  std::vector<std::vector<std::uint8_t>> members_;
  std::size_t count_ = 0;
};

}  // namespace muster::tokenizer
