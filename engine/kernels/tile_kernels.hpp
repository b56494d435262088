// The innermost loop: a tile of rows times a few panels of sixteen columns, all sums in registers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace muster::kernels {

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
  const float* bias = nullptr;     // of output: panel p, column c at p * 16 + c
  const float* added = nullptr;    // laid out as output, may be output
  const Element* ahead = nullptr;  // what is needed next, laid out as right: fetched meanwhile
};

enum class LeftLayout { packed, scores };
constexpr int score_columns = 64;

template <class L, LeftLayout layout, int rows, int panels, class Element>
void compute_tile(const Tile<Element>& tile) {
  constexpr int row_step = layout == LeftLayout::packed ? 1 : score_columns;
  constexpr int inner_step = layout == LeftLayout::packed ? rows : 1;
  constexpr bool fetches = rows > 3;  // with fewer the processor's own guesses suffice, and every slot counts
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
  const Element* right = tile.right;
  [[maybe_unused]] const std::int64_t ahead = tile.ahead == nullptr ? 0 : tile.ahead - tile.right;
  for (std::int64_t k = 0; k < tile.length; ++k) {
    L row[width];
#pragma GCC unroll 8
    for (int p = 0; p < panels; ++p) {
      row[p] = L::load(right + p * tile.panel_step);
      if constexpr (fetches) __builtin_prefetch(right + p * tile.panel_step + ahead, 0, 2);
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
      const L input = L::broadcast(left[r * row_step]);
#pragma GCC unroll 8
      for (int p = 0; p < panels; ++p) sums[r][p] = L::fma(input, row[p], sums[r][p]);
    }
    left += inner_step;
    right += tile.inner_step;
  }
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
    if (tile.ahead != nullptr) tile.ahead += step * tile.panel_step;
    tile.sums += step * tile.sums_panel_step;
    if (tile.output != nullptr) tile.output += step * 16;
    if (tile.bias != nullptr) tile.bias += step * 16;
    if (tile.added != nullptr) tile.added += step * 16;
    panels -= step;
  }
}

}  // namespace muster::kernels
