#include "tokenizer/symbol_table.hpp"

#include <algorithm>
#include <map>

namespace muster::tokenizer {
namespace {

constexpr std::size_t most_symbols = 256;

// Where intervals begin within which every set holds all or nothing, ascending; the first is 0.
std::vector<char32_t> interval_starts(std::span<const CodePointSet> sets) {
  std::vector<char32_t> starts{0};
  for (const CodePointSet& set : sets) {
    for (const CodePointRange& range : set.ranges()) {
      starts.push_back(range.first);
      if (range.last < last_code_point) starts.push_back(range.last + 1);
    }
  }
  std::sort(starts.begin(), starts.end());
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  return starts;
}

// For each interval the numbers of the sets that hold it.
std::vector<std::vector<std::uint16_t>> holders(std::span<const CodePointSet> sets,
                                                const std::vector<char32_t>& starts) {
  std::vector<std::vector<std::uint16_t>> held(starts.size());
  for (std::size_t i = 0; i < sets.size(); ++i) {
    std::size_t interval = 0;
    for (const CodePointRange& range : sets[i].ranges()) {
      while (starts[interval] < range.first) ++interval;
      for (; interval < starts.size() && starts[interval] <= range.last; ++interval)
        held[interval].push_back(static_cast<std::uint16_t>(i));
    }
  }
  return held;
}

}  // namespace

std::optional<SymbolTable> SymbolTable::build(std::span<const CodePointSet> sets) {
  SymbolTable table;
  table.members_.resize(sets.size());
  std::map<std::vector<std::uint16_t>, std::uint8_t> symbols;  // by which sets hold it
  std::vector<char32_t> starts = interval_starts(sets);
  const auto held = holders(sets, starts);
  starts.push_back(last_code_point + 1);
  std::array<std::uint8_t, 256> page{};
  char32_t point = 0;
  for (std::size_t interval = 0; interval < held.size(); ++interval) {
    const auto [entry, fresh] = symbols.emplace(held[interval], static_cast<std::uint8_t>(symbols.size()));
    if (fresh) {
      if (symbols.size() > most_symbols) return std::nullopt;
      for (const std::uint16_t set : held[interval]) table.members_[set].push_back(entry->second);
    }
    const char32_t end = starts[interval + 1];
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
