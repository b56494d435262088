// The innermost loop: a tile of rows times a few panels of sixteen columns, all sums in registers.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/coded/coded_panels.hpp"

namespace muster::kernels {

// What will be read next, fetched while a tile is computed: panel p, inner k at p * panel_step + k * inner_step bytes.
struct Ahead {
  const std::byte* from = nullptr;
  std::int64_t panel_step = 0;
  std::int64_t inner_step = 0;

  [[gnu::always_inline]] const std::byte* or_else(const void* other) const {
    return from != nullptr ? from : static_cast<const std::byte*>(other);
  }
};

// Element: what the right side is stored as: a number, a code of 8 bits, or a group of inputs in codes of 4 bits.
template <class Element>
struct Tile {
  const float* left = nullptr;     // packed: [length][rows]; scores: [rows][64]
  const Element* right = nullptr;  // panel p, inner k, column c at p * panel_step + k * inner_step + c
  std::int64_t panel_step = 0;
  std::int64_t inner_step = 0;
  std::int64_t length = 0;
  float* sums = nullptr;  // panel p, row r, column c at p * sums_panel_step + r * sums_row_step + c
  std::int64_t sums_panel_step = 0;
  std::int64_t sums_row_step = 0;
  bool first = false;  // sums = chain instead of sums += chain
  // Where given, the finished sums go there instead: panel p, row r, column c at p * 16 + r * output_step + c.
  float* output = nullptr;
  std::int64_t output_step = 0;
  const float* bias = nullptr;   // of output: panel p, column c at p * 16 + c
  const float* added = nullptr;  // laid out as output, may be output
  Ahead ahead;
  // Codes: panel p, inner k, column c is multiplied by what is at p * scale_panel_step + k / steady * 16 + c.
  const float* scales = nullptr;
  std::int64_t scale_panel_step = 0;
  std::int64_t steady = 0;
  const float* table = nullptr;  // 4 bits: what the codes stand for
};

// With so few rows the processor's own guesses at what is read next suffice, and every slot counts.
constexpr int most_guessed_rows = 3;

enum class LeftLayout { packed, scores };
constexpr int score_columns = 64;

// over(tile, use): use(row) for each of inner in ascending order; row: the panels' numbers.
template <class L, int panels, bool fetches, class Element>
struct PanelWalk {
  template <class Use>
  [[gnu::always_inline]] static void over(const Tile<Element>& tile, Use&& use) {
    const Element* right = tile.right;
    [[maybe_unused]] const std::byte* ahead = tile.ahead.or_else(right);
    for (std::int64_t k = 0; k < tile.length; ++k) {
      L row[static_cast<std::size_t>(panels)];
#pragma GCC unroll 8
      for (int p = 0; p < panels; ++p) {
        row[p] = L::load(right + p * tile.panel_step);
        if constexpr (fetches) __builtin_prefetch(ahead + p * tile.ahead.panel_step, 0, 2);
      }
      use(row);
      if constexpr (fetches) ahead += tile.ahead.inner_step;
      right += tile.inner_step;
    }
  }
};

template <class L, int panels, bool fetches>
struct PanelWalk<L, panels, fetches, std::int8_t> {
  template <class Use>
  [[gnu::always_inline]] static void over(const Tile<std::int8_t>& tile, Use&& use) {
    L scales[static_cast<std::size_t>(panels)];
#pragma GCC unroll 8
    for (int p = 0; p < panels; ++p) scales[p] = L::load(tile.scales + p * tile.scale_panel_step);
    const std::int8_t* right = tile.right;
    [[maybe_unused]] const std::byte* ahead = tile.ahead.or_else(right);
    for (std::int64_t k = 0; k < tile.length; ++k) {
      L row[static_cast<std::size_t>(panels)];
#pragma GCC unroll 8
      for (int p = 0; p < panels; ++p) {
        row[p] = L::load(right + p * tile.panel_step) * scales[p];
        if constexpr (fetches) __builtin_prefetch(ahead + p * tile.ahead.panel_step, 0, 2);
      }
      use(row);
      if constexpr (fetches) ahead += tile.ahead.inner_step;
      right += tile.inner_step;
    }
  }
};

template <class L, int panels, bool fetches>
struct PanelWalk<L, panels, fetches, NibbleGroup> {
  template <class Use>
  [[gnu::always_inline]] static void over(const Tile<NibbleGroup>& tile, Use&& use) {
    const L table = L::load(tile.table);
    const NibbleGroup* right = tile.right;
    const float* from = tile.scales;
    [[maybe_unused]] const std::byte* ahead = tile.ahead.or_else(right);
    for (std::int64_t k = 0; k < tile.length; k += tile.steady) {
      L scales[static_cast<std::size_t>(panels)];
#pragma GCC unroll 8
      for (int p = 0; p < panels; ++p) scales[p] = L::load(from + p * tile.scale_panel_step);
      const std::int64_t inputs = std::min(tile.steady, tile.length - k);
      for (std::int64_t i = 0; i < inputs; i += group_inputs) {
        typename L::Words words[static_cast<std::size_t>(panels)];
#pragma GCC unroll 8
        for (int p = 0; p < panels; ++p) {
          words[p] = L::load_words(static_cast<const std::uint32_t*>(right[p * tile.panel_step].words));
          if constexpr (fetches) __builtin_prefetch(ahead + p * tile.ahead.panel_step, 0, 2);
        }
        if constexpr (fetches) ahead += group_inputs * tile.ahead.inner_step;
        each(table, words, scales, use, std::make_integer_sequence<int, group_inputs>());
        ++right;
      }
      from += panel_columns;
    }
  }

 private:
  template <class Words, class Scales, class Use, int... places>
  [[gnu::always_inline]] static void each(L table, const Words& words, const Scales& scales, Use&& use,
                                          std::integer_sequence<int, places...>) {
    (use_one<places>(table, words, scales, use), ...);
  }
  template <int place, class Words, class Scales, class Use>
  [[gnu::always_inline]] static void use_one(L table, const Words& words, const Scales& scales, Use&& use) {
    L row[static_cast<std::size_t>(panels)];
#pragma GCC unroll 8
    for (int p = 0; p < panels; ++p) row[p] = L::template look_up<place>(table, words[p]) * scales[p];
    use(row);
  }
};

template <class L, LeftLayout layout, int rows, int panels, class Element>
void compute_tile(const Tile<Element>& tile) {
  constexpr int row_step = layout == LeftLayout::packed ? 1 : score_columns;
  constexpr int inner_step = layout == LeftLayout::packed ? rows : 1;
  constexpr bool fetches = rows > most_guessed_rows;
  constexpr std::size_t height = rows;
  constexpr std::size_t width = panels;
  L sums[height][width];
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
    for (int p = 0; p < panels; ++p) sums[r][p] = L::broadcast(0.0F);
  }
  if (tile.output != nullptr) {  // fetched while the sums are made
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
      for (int p = 0; p < panels; ++p) {
        __builtin_prefetch(tile.output + p * 16 + r * tile.output_step, 1);
        if (tile.added != nullptr) __builtin_prefetch(tile.added + p * 16 + r * tile.output_step);
      }
    }
  }
  const float* left = tile.left;
  PanelWalk<L, panels, fetches, Element>::over(tile, [&](const L(&row)[width]) __attribute__((always_inline)) {
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
      const L input = L::broadcast(left[r * row_step]);
#pragma GCC unroll 8
      for (int p = 0; p < panels; ++p) sums[r][p] = L::fma(input, row[p], sums[r][p]);
    }
    left += inner_step;
  });
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
    for (int p = 0; p < panels; ++p) {
      float* target = tile.sums + p * tile.sums_panel_step + r * tile.sums_row_step;
      L sum = tile.first ? sums[r][p] : L::load(target) + sums[r][p];
      if (tile.output != nullptr) {
        const std::int64_t place = p * 16 + r * tile.output_step;
        target = tile.output + place;
        if (tile.bias != nullptr) sum = sum + L::load(tile.bias + p * 16);
        if (tile.added != nullptr) sum = L::load(tile.added + place) + sum;
      }
      sum.store(target);
    }
  }
}

template <class L, LeftLayout layout, class Element, int... rows>
constexpr auto tile_functions(bool several, std::integer_sequence<int, rows...>) {
  using Function = void (*)(const Tile<Element>&);
  return several ? std::array<Function, sizeof...(rows)>{&compute_tile<L, layout, rows + 1, L::panels_at_once(rows + 1),
                                                                       Element>...}
                 : std::array<Function, sizeof...(rows)>{&compute_tile<L, layout, rows + 1, 1, Element>...};
}

// rows: 1 to L::tile_rows; any number of panels.
template <class L, LeftLayout layout, class Element>
void compute_tiles(const Tile<Element>& whole, std::int64_t rows, std::int64_t panels) {
  constexpr auto numbers = std::make_integer_sequence<int, L::tile_rows>();
  static constexpr auto several = tile_functions<L, layout, Element>(true, numbers);
  static constexpr auto single = tile_functions<L, layout, Element>(false, numbers);
  const auto index = static_cast<std::size_t>(rows - 1);
  const std::int64_t at_once = L::panels_at_once(static_cast<int>(rows));
  if (panels == at_once) return several[index](whole);
  for (Tile<Element> tile = whole; panels > 0;) {
    const std::int64_t step = panels >= at_once ? at_once : 1;
    (panels >= at_once ? several[index] : single[index])(tile);
    tile.right += step * tile.panel_step;
    if (tile.ahead.from != nullptr) tile.ahead.from += step * tile.ahead.panel_step;
    if (tile.scales != nullptr) tile.scales += step * tile.scale_panel_step;
    tile.sums += step * tile.sums_panel_step;
    if (tile.output != nullptr) tile.output += step * 16;
    if (tile.bias != nullptr) tile.bias += step * 16;
    if (tile.added != nullptr) tile.added += step * 16;
    panels -= step;
  }
}

}  // namespace muster::kernels
