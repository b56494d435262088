// The parts of a matrix product that run on every thread, for one kind of lanes.
#pragma once

#include "kernels/coded/coded_panel_kernels.hpp"
#include "kernels/product.hpp"
#include "kernels/row_access.hpp"
#include "kernels/tile_kernels.hpp"

namespace muster::kernels {

template <class L>
struct ProductKernels {
  using Codes = CodedPanelKernels<L>;
  static constexpr std::int64_t column_tiles_at_once = 8;
  static constexpr std::int64_t most_decoding_rows = L::tile_rows;

  // ---- the left side ----

  template <int... rows>
  static constexpr auto interleave_functions(std::integer_sequence<int, rows...>) {
    return std::array<void (*)(const float* const*, std::int64_t, float*), sizeof...(rows)>{
        &L::template interleave<rows + 1>...};
  }

  template <class Element>
  static const float* as_floats(const Element* source, std::int64_t length, float* buffer) {
    for (std::int64_t k = 0; k < length; k += 16) load_some<L>(source + k, length - k).store(buffer + k);
    return buffer;
  }
  static const float* as_floats(const float* source, std::int64_t, float*) { return source; }

  template <class Element>
  static void pack_tile_of_rows(const Element* const* sources, std::int64_t rows, std::int64_t length, float* target) {
    static constexpr auto functions = interleave_functions(std::make_integer_sequence<int, L::tile_rows>());
    alignas(64) float buffer[L::tile_rows][inner_block];
    const float* floats[L::tile_rows];
    for (std::int64_t r = 0; r < rows; ++r) floats[r] = as_floats(sources[r], length, static_cast<float*>(buffer[r]));
    functions[static_cast<std::size_t>(rows - 1)](static_cast<const float* const*>(floats), length, target);
  }

  // Tiles that begin at source, each next `rows` on: several at once, so that a line of source is read once.
  template <class Element, int rows>
  static void pack_tiles_of_columns(const Element* source, std::int64_t stride, std::int64_t tiles, std::int64_t length,
                                    float* target) {
    for (std::int64_t first = 0; first < tiles; first += column_tiles_at_once) {
      const std::int64_t last = std::min(tiles, first + column_tiles_at_once);
      for (std::int64_t k = 0; k < length; ++k) {
        for (std::int64_t t = first; t < last; ++t) {
          const Element* from = source + k * stride + t * rows;
          float* to = target + (t * length + k) * rows;
#pragma GCC unroll 16
          for (int r = 0; r < rows; ++r) to[r] = widen(from[r]);
        }
      }
    }
  }

  template <class Element, int... rows>
  static constexpr auto column_functions(std::integer_sequence<int, rows...>) {
    using Function = void (*)(const Element*, std::int64_t, std::int64_t, std::int64_t, float*);
    return std::array<Function, sizeof...(rows)>{&pack_tiles_of_columns<Element, rows + 1>...};
  }

  // units: (row block, 256 of inner)
  static void pack_left(const LeftSide& left, std::int64_t begin, std::int64_t end) {
    const Partition blocks(left.rows, most_block_rows);
    const std::int64_t steps = (left.inner + inner_block - 1) / inner_block;
    for (std::int64_t unit = begin; unit < end; ++unit) {
      with_element(left.scalar, [&](auto element) {
        const std::int64_t k = unit % steps * inner_block;
        pack_block<decltype(element)>(left, blocks.start(unit / steps), blocks.size(unit / steps), k,
                                      std::min(inner_block, left.inner - k));
      });
    }
  }

  template <class Element>
  static void pack_block(const LeftSide& left, std::int64_t first_row, std::int64_t rows, std::int64_t k,
                         std::int64_t length) {
    const auto* source = static_cast<const Element*>(left.source);
    const Partition tiles(rows, L::tile_rows);
    float* target = left.packed + first_row * left.inner + rows * k;
    if (left.by_columns) {
      static constexpr auto functions = column_functions<Element>(std::make_integer_sequence<int, L::tile_rows>());
      for (std::int64_t t = 0; t < tiles.parts();) {  // those of one size together
        std::int64_t alike = 1;
        while (t + alike < tiles.parts() && tiles.size(t + alike) == tiles.size(t)) ++alike;
        functions[static_cast<std::size_t>(tiles.size(t) - 1)](source + k * left.stride + first_row + tiles.start(t),
                                                               left.stride, alike, length,
                                                               target + tiles.start(t) * length);
        t += alike;
      }
      return;
    }
    for (std::int64_t t = 0; t < tiles.parts(); ++t) {
      const std::int64_t row = first_row + tiles.start(t);
      const Element* sources[L::tile_rows];
      for (std::int64_t r = 0; r < tiles.size(t); ++r) sources[r] = source + (row + r) * left.stride + k;
      pack_tile_of_rows(static_cast<const Element* const*>(sources), tiles.size(t), length,
                        target + tiles.start(t) * length);
    }
  }

  // ---- the right side: one panel of up to 256 of inner, as float32 [length][16] ----

  template <class Element>
  static void widen_panel(const ProductJob& job, std::int64_t panel, std::int64_t k, std::int64_t length,
                          float* ready) {
    const auto* source = reinterpret_cast<const Element*>(job.right) + (panel * job.right_inner + k) * panel_columns;
    for (std::int64_t i = 0; i < length * panel_columns; i += 16) L::load(source + i).store(ready + i);
  }

  template <class Element>
  static void turn_panel(const ProductJob& job, std::int64_t panel, std::int64_t k, std::int64_t length, float* ready) {
    const std::int64_t column = panel * panel_columns;
    const std::int64_t columns = std::min(panel_columns, job.columns - column);
    for (std::int64_t i = 0; i < length; i += panel_columns) {
      const auto* source = reinterpret_cast<const Element*>(job.right) +
                           ((k + i) / panel_columns * job.right_inner + column) * panel_columns;
      float* target = ready + i * panel_columns;
      if (columns == panel_columns && length - i >= panel_columns) {
        L::transpose(source, panel_columns, target);
        continue;
      }
      Element padded[panel_columns * panel_columns] = {};
      for (std::int64_t e = 0; e < columns * panel_columns; ++e) padded[e] = source[e];
      float turned[panel_columns * panel_columns];
      L::transpose(static_cast<const Element*>(padded), panel_columns, static_cast<float*>(turned));
      std::copy_n(static_cast<const float*>(turned), std::min(panel_columns, length - i) * panel_columns, target);
    }
  }

  static void turn_codes(const ProductJob& job, std::int64_t panel, std::int64_t k, std::int64_t length, float* ready) {
    const std::int64_t column = panel * panel_columns;
    const std::int64_t columns = std::min(panel_columns, job.columns - column);
    alignas(64) float decoded[panel_columns * panel_columns] = {};
    alignas(64) float turned[panel_columns * panel_columns];
    for (std::int64_t i = 0; i < length; i += panel_columns) {
      Codes::decode(*job.coded, (k + i) / panel_columns, column, columns, static_cast<float*>(decoded));
      L::transpose(static_cast<const float*>(decoded), panel_columns, static_cast<float*>(turned));
      std::copy_n(static_cast<const float*>(turned), std::min(panel_columns, length - i) * panel_columns,
                  ready + i * panel_columns);
    }
  }

  template <class Element>
  static void gather_panel(const ProductJob& job, std::int64_t panel, std::int64_t k, std::int64_t length,
                           float* ready) {
    const std::int64_t column = panel * panel_columns;
    const auto* source = reinterpret_cast<const Element*>(job.right) + k * job.right_inner + column;
    for (std::int64_t i = 0; i < length; ++i) {
      load_some<L>(source + i * job.right_inner, job.columns - column).store(ready + i * panel_columns);
    }
  }

  template <class Element>
  static void prepare_panel(const ProductJob& job, std::int64_t panel, std::int64_t k, std::int64_t length,
                            float* ready) {
    if (job.coded != nullptr) {
      if (job.source == PanelSource::transposed) return turn_codes(job, panel, k, length, ready);
      return Codes::decode(*job.coded, panel, k, length, ready);
    }
    switch (job.source) {
      case PanelSource::packed:
        return widen_panel<Element>(job, panel, k, length, ready);
      case PanelSource::transposed:
        return turn_panel<Element>(job, panel, k, length, ready);
      case PanelSource::rows:
        return gather_panel<Element>(job, panel, k, length, ready);
    }
  }

  // The whole right side, as a PackedMatrix of float32 holds it. units: (panel, 256 of inner)
  static void pack_right(const ProductJob& job, float* target, std::int64_t begin, std::int64_t end) {
    const std::int64_t steps = (job.left.inner + inner_block - 1) / inner_block;
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t panel = unit / steps, k = unit % steps * inner_block;
      with_element(job.right_scalar, [&](auto element) {
        prepare_panel<decltype(element)>(job, panel, k, std::min(inner_block, job.left.inner - k),
                                         target + (panel * job.left.inner + k) * panel_columns);
      });
    }
  }

  // ---- the product ----

  struct Block {
    std::int64_t first_row, rows;
    std::int64_t first_panel, panels;
    bool straight;  // finished sums go from the registers to the output
    float* sums;    // [panels][rows][16]
    float* ready;   // [panels at once][256][16]
  };

  template <class Element>
  static void multiply_tiles(const ProductJob& job, const Block& block, Tile<Element> tile, std::int64_t panel,
                             std::int64_t panels, std::int64_t k) {
    const Partition tiles(block.rows, L::tile_rows);
    const float* left = job.left.packed + block.first_row * job.left.inner + block.rows * k;
    float* sums = block.sums + panel * block.rows * panel_columns;
    tile.inner_step = panel_columns;
    tile.sums_panel_step = block.rows * panel_columns;
    tile.sums_row_step = panel_columns;
    tile.first = k == 0;
    const std::int64_t column = (block.first_panel + panel) * panel_columns;
    const std::int64_t place = block.first_row * job.output_stride + column;
    float* output = nullptr;
    if (block.straight && k + tile.length == job.left.inner) {
      output = reinterpret_cast<float*>(job.output) + place;
      tile.output_step = job.output_stride;
      tile.bias = job.bias == nullptr ? nullptr : job.bias + column;
    }
    const Ahead ahead = tile.ahead;
    for (std::int64_t t = 0; t < tiles.parts(); ++t) {
      tile.ahead = t == tiles.parts() - 1 ? ahead : Ahead{};
      tile.left = left + tiles.start(t) * tile.length;
      tile.sums = sums + tiles.start(t) * panel_columns;
      if (output != nullptr) {
        const std::int64_t down = tiles.start(t) * job.output_stride;
        tile.output = output + down;
        if (job.added != nullptr) tile.added = reinterpret_cast<const float*>(job.added) + place + down;
      }
      compute_tiles<L, LeftLayout::packed>(tile, tiles.size(t), panels);
    }
  }

  // The steps of a block: each takes up to 256 of inner of a few panels.
  struct Steps {
    std::int64_t panels, at_once, inner;
    bool panel_by_panel;  // all of inner of some panels after another, as they lie in memory

    std::int64_t groups() const { return (panels + at_once - 1) / at_once; }
    std::int64_t parts() const { return (inner + inner_block - 1) / inner_block; }
    std::int64_t count() const { return groups() * parts(); }
    std::int64_t panel(std::int64_t step) const {
      return (panel_by_panel ? step / parts() : step % groups()) * at_once;
    }
    std::int64_t k(std::int64_t step) const {
      return (panel_by_panel ? step % parts() : step / groups()) * inner_block;
    }
  };

  // What the next step reads of packed panels, as they are stored.
  static Ahead ahead_of(const ProductJob& job, const Block& block, const Steps& steps, std::int64_t step) {
    if (job.source != PanelSource::packed || step + 1 == steps.count()) return {};
    const std::int64_t panel = block.first_panel + steps.panel(step + 1), k = steps.k(step + 1);
    if (job.coded != nullptr) {
      const std::int64_t bytes = job.coded->panel_bytes(), input = bytes / job.left.inner;
      return {job.coded->data + panel * bytes + k * input, bytes, input};
    }
    const std::int64_t input = panel_columns * static_cast<std::int64_t>(bytes_per_element(job.right_scalar));
    return {job.right + (panel * job.right_inner + k) * input, job.right_inner * input, input};
  }

  template <class Element>
  static void multiply_block(const ProductJob& job, const Block& block) {
    const Partition tiles(block.rows, L::tile_rows);
    const bool in_place =
        job.source == PanelSource::packed && job.coded == nullptr && (sizeof(Element) == 4 || tiles.parts() == 1);
    const Steps steps{block.panels, L::panels_at_once(static_cast<int>(tiles.size(tiles.parts() - 1))), job.left.inner,
                      in_place && sizeof(Element) < 4 && block.rows <= most_guessed_rows};
    for (std::int64_t s = 0; s < steps.count(); ++s) {
      const std::int64_t p = steps.panel(s), k = steps.k(s);
      const std::int64_t panels = std::min(steps.at_once, block.panels - p);
      const std::int64_t length = std::min(inner_block, job.left.inner - k);
      const Ahead ahead = ahead_of(job, block, steps, s);
      if (in_place) {
        const std::int64_t step = job.right_inner * panel_columns;
        const auto* right =
            reinterpret_cast<const Element*>(job.right) + (block.first_panel + p) * step + k * panel_columns;
        multiply_tiles<Element>(job, block, {.right = right, .panel_step = step, .length = length, .ahead = ahead}, p,
                                panels, k);
        continue;
      }
      constexpr std::int64_t step = inner_block * panel_columns;
      for (std::int64_t i = 0; i < panels; ++i) {
        prepare_panel<Element>(job, block.first_panel + p + i, k, length, block.ready + i * step);
      }
      multiply_tiles<float>(job, block, {.right = block.ready, .panel_step = step, .length = length, .ahead = ahead}, p,
                            panels, k);
    }
  }

  // Codes of few rows: every number is used once, in the registers.
  static bool decodes_in_tiles(const ProductJob& job, const Block& block) {
    return job.coded != nullptr && job.source == PanelSource::packed && block.rows <= most_decoding_rows &&
           job.coded->form.rounded == Scalar::float32 && !job.coded->crosses_rows();
  }

  static const std::int8_t* codes_of(const CodedPanels& coded, std::int64_t panel, std::int64_t k, std::int8_t) {
    return coded.bytes(panel) + k * panel_columns;
  }
  static const NibbleGroup* codes_of(const CodedPanels& coded, std::int64_t panel, std::int64_t k, NibbleGroup) {
    return coded.groups(panel) + k / group_inputs;
  }

  template <class Element>
  static void multiply_codes(const ProductJob& job, const Block& block) {
    const CodedPanels& coded = *job.coded;
    const Steps steps{block.panels, L::panels_at_once(static_cast<int>(block.rows)), job.left.inner,
                      block.rows <= most_guessed_rows};
    for (std::int64_t s = 0; s < steps.count(); ++s) {
      const std::int64_t p = steps.panel(s), k = steps.k(s), first = block.first_panel + p;
      const Tile<Element> tile{.right = codes_of(coded, first, k, Element()),
                               .panel_step = coded.panel_bytes() / std::int64_t{sizeof(Element)},
                               .length = std::min(inner_block, job.left.inner - k),
                               .ahead = ahead_of(job, block, steps, s),
                               .scales = coded.scales(first) + k / coded.run() * panel_columns,
                               .scale_panel_step = coded.slots() * panel_columns,
                               .steady = coded.steady_inputs(),
                               .table = code_table(coded.form.code).values.data()};
      multiply_tiles<Element>(job, block, tile, p, std::min(steps.at_once, block.panels - p), k);
    }
  }

  template <class Element>
  static void write_block(const ProductJob& job, const Block& block) {
    for (std::int64_t r = 0; r < block.rows; ++r) {
      const std::int64_t place = (block.first_row + r) * job.output_stride;
      auto* row = reinterpret_cast<Element*>(job.output) + place;
      const auto* added = job.added == nullptr ? nullptr : reinterpret_cast<const Element*>(job.added) + place;
      for (std::int64_t p = 0; p < block.panels; ++p) {
        const std::int64_t column = (block.first_panel + p) * panel_columns;
        const std::int64_t count = job.columns - column;
        L sum = L::load(block.sums + (p * block.rows + r) * panel_columns);
        if (job.bias != nullptr) sum = sum + load_some<L>(job.bias + column, count);
        if (added != nullptr) sum = load_some<L>(added + column, count) + sum;
        store_some(sum, row + column, count);
      }
    }
  }

  // units: (row block, group of panels)
  static void multiply(const ProductJob& job, std::int64_t begin, std::int64_t end) {
    alignas(64) float sums[most_group_panels * most_block_rows * panel_columns];
    alignas(64) float ready[L::panels_at_once(1) * inner_block * panel_columns];
    const Partition blocks(job.left.rows, most_block_rows);
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t first_panel = unit % job.groups() * job.group;
      const std::int64_t panels = std::min(job.group, job.panels() - first_panel);
      const Block block{blocks.start(unit / job.groups()),
                        blocks.size(unit / job.groups()),
                        first_panel,
                        panels,
                        job.output_scalar == Scalar::float32 && (first_panel + panels) * panel_columns <= job.columns,
                        static_cast<float*>(sums),
                        static_cast<float*>(ready)};
      if (!decodes_in_tiles(job, block)) {
        with_element(job.right_scalar, [&](auto element) { multiply_block<decltype(element)>(job, block); });
      } else if (job.coded->has_bytes()) {
        multiply_codes<std::int8_t>(job, block);
      } else {
        multiply_codes<NibbleGroup>(job, block);
      }
      if (block.straight) continue;
      with_element(job.output_scalar, [&](auto element) { write_block<decltype(element)>(job, block); });
    }
  }
};

}  // namespace muster::kernels
