#include "tokenizer/symbol_table.hpp"

#include <algorithm>
#include <map>

namespace muster::tokenizer {
namespace {

constexpr std::size_t most_symbols = 256;

// Where membership in any set may change, ascending, without 0.
std::vector<char32_t> boundaries(std::span<const CodePointSet> sets) {
  std::vector<char32_t> found;
  for (const CodePointSet& set : sets) {
    for (const CodePointRange& range : set.ranges()) {
      found.push_back(range.first);
      found.push_back(range.last + 1);
    }
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  if (!found.empty() && found.front() == 0) found.erase(found.begin());
  while (!found.empty() && found.back() > last_code_point) found.pop_back();
  return found;
}

}  // namespace

std::optional<SymbolTable> SymbolTable::build(std::span<const CodePointSet> sets) {
  SymbolTable table;
  table.members_.resize(sets.size());
  std::map<std::vector<bool>, std::uint8_t> symbols;  // by which sets hold it
  std::vector<char32_t> ends = boundaries(sets);
  ends.push_back(last_code_point + 1);
  std::array<std::uint8_t, 256> page{};
  char32_t point = 0;
  for (const char32_t end : ends) {
    std::vector<bool> held(sets.size());
    for (std::size_t i = 0; i < sets.size(); ++i) held[i] = sets[i].contains(point);
    const auto [entry, fresh] = symbols.emplace(held, static_cast<std::uint8_t>(symbols.size()));
    if (fresh) {
      if (symbols.size() > most_symbols) return std::nullopt;
      for (std::size_t i = 0; i < sets.size(); ++i)
        if (held[i]) table.members_[i].push_back(entry->second);
    }
    while (point < end) {
      const char32_t stop = std::min<char32_t>(end, (point | 0xFFU) + 1);  // of the interval or of the page
      std::fill_n(page.begin() + (point & 0xFFU), stop - point, entry->second);
      point = stop;
      if ((point & 0xFFU) == 0) table.note_page((point - 1) >> 8U, page);
    }
  }
  table.count_ = symbols.size();
  return table;
}

void SymbolTable::note_page(std::size_t page, const std::array<std::uint8_t, 256>& symbols) {
  if (pages_.size() >= symbols.size() && std::equal(symbols.begin(), symbols.end(), pages_.end() - 256)) {
    page_of_[page] = static_cast<std::uint16_t>(pages_.size() / 256 - 1);
    return;
  }
  page_of_[page] = static_cast<std::uint16_t>(pages_.size() / 256);
  pages_.insert(pages_.end(), symbols.begin(), symbols.end());
}

}  // namespace muster::tokenizer
