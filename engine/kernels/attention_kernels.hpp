// Attention for one kind of lanes.
#pragma once

#include <algorithm>
#include <limits>

#include "kernels/attention_job.hpp"
#include "kernels/lanes/lane_math.hpp"
#include "kernels/product_kernels.hpp"
#include "kernels/row_access.hpp"
#include "kernels/tile_kernels.hpp"

namespace muster::kernels {

constexpr std::int64_t padded(std::int64_t head_size) { return (head_size + 15) / 16 * 16; }

// Rows of a matrix as products want them on either side.
template <class L>
struct AttentionOperands {
  // count: a multiple of 16
  static void clear(float* target, std::int64_t count) {
    for (std::int64_t i = 0; i < count; i += 16) L::broadcast(0.0F).store(target + i);
  }

  // [count, head_size], rows stride apart, to panels [count / 16][head_size][16]; rows beyond count are zero.
  template <class Element>
  static void turn(const Element* source, std::int64_t stride, std::int64_t count, std::int64_t head_size,
                   float* target) {
    for (std::int64_t row = 0; row < count; row += 16) {
      float* panel = target + row * head_size;
      std::int64_t d = 0;
      for (; d + 16 <= head_size; d += 16) {
        const Element* block = source + row * stride + d;
        if (row + 16 <= count) {
          L::transpose(block, stride, panel + d * 16);
          continue;
        }
        Element filled[256] = {};
        for (std::int64_t i = 0; i < count - row; ++i) std::copy_n(block + i * stride, 16, filled + i * 16);
        L::transpose(static_cast<const Element*>(filled), 16, panel + d * 16);
      }
      for (; d < head_size; ++d) {
        for (std::int64_t i = 0; i < 16; ++i) {
          panel[d * 16 + i] = row + i < count ? widen(source[(row + i) * stride + d]) : 0.0F;
        }
      }
    }
  }

  // The same rows to [count][padded head_size].
  template <class Element>
  static void copy(const Element* source, std::int64_t stride, std::int64_t count, std::int64_t head_size,
                   float* target) {
    for (std::int64_t row = 0; row < count; ++row) {
      for (std::int64_t d = 0; d < head_size; d += 16) {
        load_some<L>(source + row * stride + d, head_size - d).store(target + row * padded(head_size) + d);
      }
    }
  }

  // row(r) for r < rows, to tiles [tile][head_size][tile rows].
  template <class Row>
  static void pack(Row&& row, std::int64_t rows, std::int64_t head_size, float* target) {
    using Element = std::remove_cvref_t<decltype(*row(0))>;
    const Partition tiles(rows, L::tile_rows);
    for (std::int64_t t = 0; t < tiles.parts(); ++t) {
      const Element* sources[L::tile_rows];
      for (std::int64_t r = 0; r < tiles.size(t); ++r) sources[r] = row(tiles.start(t) + r);
      ProductKernels<L>::pack_tile_of_rows(static_cast<const Element* const*>(sources), tiles.size(t), head_size,
                                           target + tiles.start(t) * head_size);
    }
  }

  // scores[rows][64] = left tile · panels, for the first `columns` of them
  static void score(const float* tile, std::int64_t rows, const float* panels, std::int64_t columns,
                    std::int64_t head_size, float* scores) {
    compute_tiles<L, LeftLayout::packed, float>({.left = tile,
                                                 .right = panels,
                                                 .panel_step = head_size * 16,
                                                 .inner_step = 16,
                                                 .length = head_size,
                                                 .sums = scores,
                                                 .sums_panel_step = 16,
                                                 .sums_row_step = chunk_keys,
                                                 .first = true},
                                                rows, (columns + 15) / 16);
  }

  // sums[rows][padded head_size] += scores[rows][64] · right[64][step], over the columns of a sight
  static void weigh(const float* scores, std::int64_t rows, Sight sight, const float* right, std::int64_t step,
                    std::int64_t head_size, float* sums) {
    compute_tiles<L, LeftLayout::scores, float>({.left = scores + sight.first,
                                                 .right = right + sight.first * step,
                                                 .panel_step = 16,
                                                 .inner_step = step,
                                                 .length = sight.last - sight.first,
                                                 .sums = sums,
                                                 .sums_panel_step = 16,
                                                 .sums_row_step = padded(head_size)},
                                                rows, padded(head_size) / 16);
  }

  // value where the sight reaches lanes c * 16 and on, otherwise `beyond`
  [[gnu::always_inline]] static L within(Sight sight, int c, L value, float beyond) {
    const L index = L::indices() + L::broadcast(static_cast<float>(c * 16));
    const L other = L::broadcast(beyond);
    const L below = L::where_less(index, L::broadcast(static_cast<float>(sight.last)), value, other);
    return L::where_less(index, L::broadcast(static_cast<float>(sight.first)), other, below);
  }
};

template <class L>
struct AttentionKernels {
  using Operands = AttentionOperands<L>;

  struct Softmax {
    float largest = -std::numeric_limits<float>::infinity();
    float sum = 0.0F;
  };

  struct Space {
    alignas(64) float queries[most_unit_rows * most_head_size];  // tiles
    alignas(64) float keys[chunk_keys * most_head_size];         // panels
    alignas(64) float values[chunk_keys * most_head_size];
    alignas(64) float scores[most_unit_rows * chunk_keys];
    alignas(64) float sums[most_unit_rows * most_head_size];  // [rows][padded head_size]
    Softmax softmax[most_unit_rows];
  };

  // Scores to weights relative to the largest score so far; returns what earlier sums are to be multiplied with.
  static float soften(float* scores, Sight sight, float scale, Softmax& softmax) {
    const auto reached = static_cast<int>((sight.last + 15) / 16);
    const L none = L::broadcast(-std::numeric_limits<float>::infinity());
    L parts[4] = {none, none, none, none};
    for (int c = 0; c < reached; ++c) {
      const L scaled = L::load(scores + c * 16) * L::broadcast(scale);
      parts[c] = Operands::within(sight, c, scaled, -std::numeric_limits<float>::infinity());
    }
    const L most = L::maximum(L::maximum(parts[0], parts[1]), L::maximum(parts[2], parts[3]));
    const float chunk_largest = most.largest();
    const float largest = chunk_largest > softmax.largest ? chunk_largest : softmax.largest;
    for (int c = 0; c < 4; ++c) {
      parts[c] = c < reached ? exponential(parts[c] - L::broadcast(largest)) : L::broadcast(0.0F);
      if (c < reached) parts[c].store(scores + c * 16);
    }
    float keep = 1.0F;
    if (largest != softmax.largest) {
      alignas(64) float all[16];
      exponential(L::broadcast(softmax.largest - largest)).store(static_cast<float*>(all));
      keep = all[0];
    }
    const float sum = ((parts[0] + parts[1]) + (parts[2] + parts[3])).sum();
    softmax.sum = softmax.sum * keep + sum;
    softmax.largest = largest;
    return keep;
  }

  static void scale_row(float* row, std::int64_t count, float factor) {
    for (std::int64_t i = 0; i < count; i += 16) (L::load(row + i) * L::broadcast(factor)).store(row + i);
  }

  struct Chunk {
    std::int64_t start;   // position of its first key
    const float* values;  // [64][step]
    std::int64_t step;
  };

  // One tile of rows against one chunk of keys.
  static void attend_tile(const AttentionJob& job, const AttentionUnit& unit, std::int64_t position, const Chunk& chunk,
                          std::int64_t row, std::int64_t rows, Space& space) {
    const std::int64_t head_size = job.shape.head_size;
    const auto sight = [&](std::int64_t r) {
      return sight_of(job.shape, position + (row + r) / unit.heads, chunk.start);
    };
    const Sight widest{sight(0).first, sight(rows - 1).last};
    if (widest.last <= widest.first) return;
    float* scores = space.scores + row * chunk_keys;
    float* sums = space.sums + row * padded(head_size);
    Operands::score(space.queries + row * head_size, rows, space.keys, widest.last, head_size, scores);
    for (std::int64_t r = 0; r < rows; ++r) {
      if (sight(r).last <= sight(r).first) continue;
      const float keep = soften(scores + r * chunk_keys, sight(r), job.shape.scale, space.softmax[row + r]);
      if (keep != 1.0F) scale_row(sums + r * padded(head_size), padded(head_size), keep);
    }
    if (sight(0) == sight(rows - 1)) {
      Operands::weigh(scores, rows, sight(0), chunk.values, chunk.step, head_size, sums);
      return;
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      if (sight(r).last <= sight(r).first) continue;
      Operands::weigh(scores + r * chunk_keys, 1, sight(r), chunk.values, chunk.step, head_size,
                      sums + r * padded(head_size));
    }
  }

  // Values where they lie, where that is possible and they are used too little for a copy to be worth it.
  static const float* values_in_place(const float* values, std::int64_t rows, std::int64_t head_size) {
    return rows <= L::tile_rows && head_size % 16 == 0 ? values : nullptr;
  }
  template <class Element>
  static const float* values_in_place(const Element*, std::int64_t, std::int64_t) {
    return nullptr;
  }

  template <class Element>
  static Chunk prepare_chunk(const AttentionJob& job, const AttentionUnit& unit, std::int64_t start, std::int64_t keys,
                             Space& space) {
    const AttentionShape& shape = job.shape;
    const KeyValueBlocks& cache = job.sequences[static_cast<std::size_t>(unit.sequence)].cache;
    const std::int64_t kv_head = unit.first_head / (shape.heads / shape.kv_heads);
    const std::int64_t block = start / cache.block_tokens;
    const std::int64_t offset = (start - block * cache.block_tokens) * cache.token_stride + kv_head * shape.head_size;
    Operands::turn(static_cast<const Element*>(cache.keys[block]) + offset, cache.token_stride, keys, shape.head_size,
                   static_cast<float*>(space.keys));
    const Element* values = static_cast<const Element*>(cache.values[block]) + offset;
    if (const float* place = values_in_place(values, unit.queries * unit.heads, shape.head_size)) {
      return {start, place, cache.token_stride};
    }
    Operands::copy(values, cache.token_stride, keys, shape.head_size, static_cast<float*>(space.values));
    return {start, static_cast<const float*>(space.values), padded(shape.head_size)};
  }

  template <class Element>
  static void write_row(const AttentionJob& job, const float* sums, const Softmax& softmax, Element* output) {
    const L sum = L::broadcast(softmax.sum);
    for (std::int64_t d = 0; d < job.shape.head_size; d += 16) {
      store_some(L::load(sums + d) / sum, output + d, job.shape.head_size - d);
    }
  }

  static float log_sum(const Softmax& softmax) {
    alignas(64) float all[16];
    logarithm(L::broadcast(softmax.sum)).store(static_cast<float*>(all));
    return softmax.largest + all[0];
  }

  template <class Element>
  static void attend_unit(const AttentionJob& job, const AttentionUnit& unit, Space& space) {
    const AttentionShape& shape = job.shape;
    const AttentionSequence& sequence = job.sequences[static_cast<std::size_t>(unit.sequence)];
    const std::int64_t rows = unit.queries * unit.heads;
    const std::int64_t position = sequence.position + unit.first_query;
    const std::int64_t past = position + unit.queries;  // keys that the last query sees end here
    const auto place = [&](std::int64_t row) {
      return ((unit.first_query + row / unit.heads) * shape.heads + unit.first_head + row % unit.heads) *
             shape.head_size;
    };
    Operands::pack([&](std::int64_t row) { return static_cast<const Element*>(sequence.queries) + place(row); }, rows,
                   shape.head_size, static_cast<float*>(space.queries));
    Operands::clear(static_cast<float*>(space.sums), rows * padded(shape.head_size));
    for (std::int64_t row = 0; row < rows; ++row) space.softmax[row] = {};
    const Partition tiles(rows, L::tile_rows);
    for (std::int64_t start = first_key(shape, position) / chunk_keys * chunk_keys; start < past; start += chunk_keys) {
      const Chunk chunk = prepare_chunk<Element>(job, unit, start, std::min(chunk_keys, past - start), space);
      for (std::int64_t t = 0; t < tiles.parts(); ++t) {
        attend_tile(job, unit, position, chunk, tiles.start(t), tiles.size(t), space);
      }
    }
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t query = unit.first_query + row / unit.heads;
      const std::int64_t head = unit.first_head + row % unit.heads;
      write_row(job, space.sums + row * padded(shape.head_size), space.softmax[row],
                static_cast<Element*>(sequence.output) + place(row));
      if (sequence.log_sum != nullptr) sequence.log_sum[head * sequence.rows + query] = log_sum(space.softmax[row]);
    }
  }

  static void attend(const AttentionJob& job, std::int64_t begin, std::int64_t end) {
    Space space;
    Operands::clear(static_cast<float*>(space.scores), most_unit_rows * chunk_keys);
    for (std::int64_t i = begin; i < end; ++i) {
      with_element(job.io, [&](auto element) {
        attend_unit<decltype(element)>(job, job.units[static_cast<std::size_t>(i)], space);
      });
    }
  }
};

}  // namespace muster::kernels
