// Exact sums of products for one kind of lanes. A tile's chains stay in registers for one sequence, are rounded, and
// are added to whole numbers that stay in the nearest cache for all sequences of a chunk.
#pragma once

#include "kernels/exact_kernels.hpp"
#include "kernels/exact_product.hpp"
#include "kernels/product_kernels.hpp"

namespace muster::kernels {

template <class L>
struct ExactProductKernels {
  struct Tile {
    const float* left = nullptr;  // [inner][rows]
    const float* right = nullptr;
    std::int64_t right_panel_step = 0;
    const InnerChunk* chunk = nullptr;
    const std::int64_t* pieces = nullptr;  // of the chunk
    // Panel p, row r, column c at p * panel_step + r * 16 + c.
    std::int64_t panel_step = 0;
    float* begun = nullptr;  // chains of a sequence that continues in the next chunk
    std::int64_t* totals = nullptr;
    std::int64_t columns = 0;  // from the first panel on
    std::int64_t* lost = nullptr;
  };

  template <int rows, int panels>
  using Chains = L[static_cast<std::size_t>(rows)][static_cast<std::size_t>(panels)];

  template <int rows, int panels>
  [[gnu::always_inline]] static void walk(const float*& left, const float*& right, std::int64_t right_panel_step,
                                          std::int64_t length, Chains<rows, panels>& chains) {
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
      for (int p = 0; p < panels; ++p) chains[r][p] = L::broadcast(0.0F);
    }
    for (std::int64_t k = 0; k < length; ++k) {
      L row[static_cast<std::size_t>(panels)];
#pragma GCC unroll 8
      for (int p = 0; p < panels; ++p) row[p] = L::load(right + p * right_panel_step);
#pragma GCC unroll 16
      for (int r = 0; r < rows; ++r) {
        const L factor = L::broadcast(left[r]);
#pragma GCC unroll 8
        for (int p = 0; p < panels; ++p) chains[r][p] = L::fma(factor, row[p], chains[r][p]);
      }
      left += rows;
      right += panel_columns;
    }
  }

  template <int rows, int panels>
  [[gnu::always_inline]] static void add_terms(const Tile& tile, Chains<rows, panels>& chains) {
    L most = L::broadcast(0.0F);
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
      for (int p = 0; p < panels; ++p) most = L::larger_magnitude(most, chains[r][p]);
    }
    if (most.are_below(quick_exact_limit)) {
#pragma GCC unroll 16
      for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
        for (int p = 0; p < panels; ++p)
          chains[r][p].add_exactly(tile.totals + p * tile.panel_step + r * panel_columns);
      }
      return;
    }
    alignas(64) float terms[static_cast<std::size_t>(rows * panels * panel_columns)];
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
      for (int p = 0; p < panels; ++p) chains[r][p].store(terms + (r * panels + p) * panel_columns);
    }
    add_any_terms(tile, rows, panels, static_cast<const float*>(terms));
  }

  // Separate, so that the rare case costs the others no registers.
  [[gnu::noinline]] static void add_any_terms(const Tile& tile, int rows, int panels, const float* terms) {
    for (int r = 0; r < rows; ++r) {
      for (int p = 0; p < panels; ++p)
        *tile.lost += ExactTerms<L>::add_any(terms + (r * panels + p) * panel_columns, tile.columns - p * panel_columns,
                                             tile.totals + p * tile.panel_step + r * panel_columns);
    }
  }

  // For a sequence in several chunks: picks up what was begun, and stores it again if there is more to come.
  template <int rows, int panels>
  [[gnu::always_inline]] static void go_on(const Tile& tile, Chains<rows, panels>& chains) {
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
      for (int p = 0; p < panels; ++p) {
        float* const begun = tile.begun + p * tile.panel_step + r * panel_columns;
        if (!tile.chunk->starts) chains[r][p] = L::load(static_cast<const float*>(begun)) + chains[r][p];
        if (!tile.chunk->ends) chains[r][p].store(begun);
      }
    }
  }

  template <int rows, int panels>
  static void compute(const Tile& tile) {
    const float* left = tile.left;
    const float* right = tile.right;
    for (std::int64_t i = 0; i < tile.chunk->pieces; ++i) {
      Chains<rows, panels> chains;
      walk<rows, panels>(left, right, tile.right_panel_step, tile.pieces[i], chains);
      if (!tile.chunk->is_whole()) go_on<rows, panels>(tile, chains);
      if (tile.chunk->ends) add_terms<rows, panels>(tile, chains);
    }
  }

  template <int... rows>
  static constexpr auto functions(bool several, std::integer_sequence<int, rows...>) {
    using Function = void (*)(const Tile&);
    return several ? std::array<Function, sizeof...(rows)>{&compute<rows + 1, L::panels_at_once(rows + 1)>...}
                   : std::array<Function, sizeof...(rows)>{&compute<rows + 1, 1>...};
  }

  struct Block {
    std::int64_t first_row, rows;
    std::int64_t first_panel, panels;
    std::int64_t* totals;  // [panels][rows][16]
    float* begun;          // the same
    float* ready;          // [panels][256][16]
    std::int64_t lost = 0;
  };

  template <class Element>
  static void prepare_panels(const ExactProductJob& job, const Block& block, const InnerChunk& chunk) {
    for (std::int64_t p = 0; p < block.panels; ++p) {
      const std::int64_t column = (block.first_panel + p) * panel_columns;
      const auto* source = static_cast<const Element*>(job.right) + chunk.first * job.columns + column;
      float* ready = block.ready + p * inner_block * panel_columns;
      for (std::int64_t k = 0; k < chunk.length; ++k)
        load_some<L>(source + k * job.columns, job.columns - column).store(ready + k * panel_columns);
    }
  }

  static void multiply_chunk(const ExactProductJob& job, Block& block, const InnerChunk& chunk) {
    constexpr auto numbers = std::make_integer_sequence<int, L::tile_rows>();
    static constexpr auto several = functions(true, numbers);
    static constexpr auto single = functions(false, numbers);
    const Partition tiles(block.rows, L::tile_rows);
    const float* left = job.left.packed + block.first_row * job.left.inner + block.rows * chunk.first;
    for (std::int64_t p = 0; p < block.panels;) {
      std::int64_t step = L::panels_at_once(static_cast<int>(tiles.size(0)));
      if (block.panels - p < step) step = 1;
      for (std::int64_t t = 0; t < tiles.parts(); ++t) {
        const std::int64_t begin = (p * block.rows + tiles.start(t)) * panel_columns;
        Tile tile{.left = left + tiles.start(t) * chunk.length,
                  .right_panel_step = inner_block * panel_columns,
                  .chunk = &chunk,
                  .pieces = job.pieces + chunk.first_piece,
                  .panel_step = block.rows * panel_columns,
                  .lost = &block.lost};
        const auto index = static_cast<std::size_t>(tiles.size(t) - 1);
        const bool at_once = step > 1 && step == L::panels_at_once(static_cast<int>(tiles.size(t)));
        for (std::int64_t done = 0; done < step; done += at_once ? step : 1) {
          tile.right = block.ready + (p + done) * inner_block * panel_columns;
          tile.begun = block.begun + begin + done * tile.panel_step;
          tile.totals = block.totals + begin + done * tile.panel_step;
          tile.columns = job.columns - (block.first_panel + p + done) * panel_columns;
          (at_once ? several[index] : single[index])(tile);
        }
      }
      p += step;
    }
  }

  static void write_block(const ExactProductJob& job, const Block& block) {
    for (std::int64_t r = 0; r < block.rows; ++r) {
      for (std::int64_t p = 0; p < block.panels; ++p) {
        const std::int64_t column = (block.first_panel + p) * panel_columns;
        const std::int64_t count = std::min(panel_columns, job.columns - column);
        const std::int64_t* from = block.totals + (p * block.rows + r) * panel_columns;
        std::int64_t* to = job.multiples + (block.first_row + r) * job.columns + column;
        for (std::int64_t c = 0; c < count; ++c) to[c] += from[c];
      }
    }
  }

  // units: (row block, chunk)
  static void pack_left(const ExactProductJob& job, std::int64_t begin, std::int64_t end) {
    const Partition blocks(job.left.rows, most_block_rows);
    const auto chunks = static_cast<std::int64_t>(job.chunks.size());
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const InnerChunk& chunk = job.chunks[static_cast<std::size_t>(unit % chunks)];
      with_element(job.left.scalar, [&](auto element) {
        ProductKernels<L>::template pack_block<decltype(element)>(
            job.left, blocks.start(unit / chunks), blocks.size(unit / chunks), chunk.first, chunk.length);
      });
    }
  }

  // units: (row block, group of panels)
  static void multiply(const ExactProductJob& job, std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t most = most_exact_panels * most_block_rows * panel_columns;
    alignas(64) std::int64_t totals[most];
    alignas(64) float begun[most];
    alignas(64) float ready[most_exact_panels * inner_block * panel_columns];
    const Partition blocks(job.left.rows, most_block_rows);
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t first_panel = unit % job.groups() * job.group;
      Block block{blocks.start(unit / job.groups()),
                  blocks.size(unit / job.groups()),
                  first_panel,
                  std::min(job.group, job.panels() - first_panel),
                  static_cast<std::int64_t*>(totals),
                  static_cast<float*>(begun),
                  static_cast<float*>(ready)};
      for (std::int64_t i = 0; i < block.panels * block.rows * panel_columns; ++i) totals[i] = 0;
      for (const InnerChunk& chunk : job.chunks) {
        with_element(job.right_scalar, [&](auto element) { prepare_panels<decltype(element)>(job, block, chunk); });
        multiply_chunk(job, block, chunk);
      }
      write_block(job, block);
      ExactTerms<L>::report(block.lost, job.overflow);
    }
  }
};

}  // namespace muster::kernels
