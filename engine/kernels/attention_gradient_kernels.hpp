// The backward pass of attention for one kind of lanes. Weights are computed again from log_sum, once for the queries'
// gradients and once for the keys' and values', so that every sum belongs to one thread and has one order.
#pragma once

#include "kernels/attention_kernels.hpp"

namespace muster::kernels {

template <class L>
struct AttentionGradientKernels {
  using Operands = AttentionOperands<L>;

  // ---- output · output_gradient of every (query, head) ----

  template <class Element>
  static float row_sum(const Element* output, const Element* gradient, std::int64_t head_size) {
    L sum = L::broadcast(0.0F);
    for (std::int64_t d = 0; d < head_size; d += 16) {
      sum = L::fma(load_some<L>(output + d, head_size - d), load_some<L>(gradient + d, head_size - d), sum);
    }
    return sum.sum();
  }

  static void sum_rows(const AttentionGradientJob& job, std::int64_t begin, std::int64_t end) {
    const AttentionShape& shape = job.shape;
    with_element(job.io, [&](auto element) {
      using Element = decltype(element);
      for (std::int64_t i = begin; i < end; ++i) {
        const AttentionUnit& unit = job.query_units[static_cast<std::size_t>(i)];
        const AttentionGradient& sequence = job.sequences[static_cast<std::size_t>(unit.sequence)];
        float* sums = job.row_sums[static_cast<std::size_t>(unit.sequence)];
        for (std::int64_t row = 0; row < unit.queries * unit.heads; ++row) {
          const std::int64_t query = unit.first_query + row / unit.heads;
          const std::int64_t head = unit.first_head + row % unit.heads;
          const std::int64_t place = (query * shape.heads + head) * shape.head_size;
          sums[head * sequence.rows + query] =
              row_sum(static_cast<const Element*>(sequence.output) + place,
                      static_cast<const Element*>(sequence.output_gradient) + place, shape.head_size);
        }
      }
    });
  }

  // ---- the queries' gradients: rows are (query, head), columns are keys ----

  struct QuerySpace {
    alignas(64) float queries[most_unit_rows * most_head_size];    // tiles
    alignas(64) float gradients[most_unit_rows * most_head_size];  // tiles of the output's
    alignas(64) float keys[chunk_keys * most_head_size];           // panels
    alignas(64) float values[chunk_keys * most_head_size];         // panels
    alignas(64) float key_rows[chunk_keys * most_head_size];
    alignas(64) float scores[most_unit_rows * chunk_keys];
    alignas(64) float slopes[most_unit_rows * chunk_keys];
    alignas(64) float sums[most_unit_rows * most_head_size];
  };

  // scores become the gradients of the scores before scaling, times the scale; as many as the tile's rows reach.
  static void slope_of_query(const AttentionShape& shape, Sight sight, std::int64_t reach, float log_sum, float row_sum,
                             float* scores, const float* slopes) {
    const L scale = L::broadcast(shape.scale);
    for (int c = 0; c * 16 < reach; ++c) {
      const L weight = exponential(L::load(scores + c * 16) * scale - L::broadcast(log_sum));
      const L slope = weight * (L::load(slopes + c * 16) - L::broadcast(row_sum)) * scale;
      Operands::within(sight, c, slope, 0.0F).store(scores + c * 16);
    }
  }

  static void query_tile(const AttentionGradientJob& job, const AttentionUnit& unit, std::int64_t start,
                         std::int64_t row, std::int64_t rows, QuerySpace& space) {
    const AttentionShape& shape = job.shape;
    const AttentionGradient& sequence = job.sequences[static_cast<std::size_t>(unit.sequence)];
    const float* row_sums = job.row_sums[static_cast<std::size_t>(unit.sequence)];
    const auto query = [&](std::int64_t r) { return unit.first_query + (row + r) / unit.heads; };
    const Sight widest{sight_of(shape, query(0), start).first, sight_of(shape, query(rows - 1), start).last};
    if (widest.last <= widest.first) return;
    float* scores = space.scores + row * chunk_keys;
    float* slopes = space.slopes + row * chunk_keys;
    Operands::score(space.queries + row * shape.head_size, rows, space.keys, widest.last, shape.head_size, scores);
    Operands::score(space.gradients + row * shape.head_size, rows, space.values, widest.last, shape.head_size, slopes);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t place = (unit.first_head + (row + r) % unit.heads) * sequence.rows + query(r);
      slope_of_query(shape, sight_of(shape, query(r), start), widest.last, sequence.log_sum[place], row_sums[place],
                     scores + r * chunk_keys, slopes + r * chunk_keys);
    }
    Operands::weigh(scores, rows, widest, space.key_rows, padded(shape.head_size), shape.head_size,
                    space.sums + row * padded(shape.head_size));
  }

  template <class Element>
  static void query_unit(const AttentionGradientJob& job, const AttentionUnit& unit, QuerySpace& space) {
    const AttentionShape& shape = job.shape;
    const AttentionGradient& sequence = job.sequences[static_cast<std::size_t>(unit.sequence)];
    const std::int64_t rows = unit.queries * unit.heads;
    const std::int64_t stride = shape.kv_heads * shape.head_size;
    const std::int64_t kv_offset = unit.first_head / (shape.heads / shape.kv_heads) * shape.head_size;
    const auto place = [&](std::int64_t row) {
      return ((unit.first_query + row / unit.heads) * shape.heads + unit.first_head + row % unit.heads) *
             shape.head_size;
    };
    Operands::pack([&](std::int64_t row) { return static_cast<const Element*>(sequence.queries) + place(row); }, rows,
                   shape.head_size, static_cast<float*>(space.queries));
    Operands::pack([&](std::int64_t row) { return static_cast<const Element*>(sequence.output_gradient) + place(row); },
                   rows, shape.head_size, static_cast<float*>(space.gradients));
    Operands::clear(static_cast<float*>(space.sums), rows * padded(shape.head_size));
    const std::int64_t past = unit.first_query + unit.queries;
    const Partition tiles(rows, L::tile_rows);
    for (std::int64_t start = first_key(shape, unit.first_query) / chunk_keys * chunk_keys; start < past;
         start += chunk_keys) {
      const std::int64_t keys = past - start < chunk_keys ? past - start : chunk_keys;
      const Element* key = static_cast<const Element*>(sequence.keys) + start * stride + kv_offset;
      const Element* value = static_cast<const Element*>(sequence.values) + start * stride + kv_offset;
      Operands::turn(key, stride, keys, shape.head_size, static_cast<float*>(space.keys));
      Operands::turn(value, stride, keys, shape.head_size, static_cast<float*>(space.values));
      Operands::copy(key, stride, keys, shape.head_size, static_cast<float*>(space.key_rows));
      for (std::int64_t t = 0; t < tiles.parts(); ++t) {
        query_tile(job, unit, start, tiles.start(t), tiles.size(t), space);
      }
    }
    const std::int64_t apart = row_step(sequence, shape.heads * shape.head_size);
    for (std::int64_t row = 0; row < rows; ++row) {
      write(space.sums + row * padded(shape.head_size), shape.head_size,
            static_cast<Element*>(sequence.query_gradient) + (unit.first_query + row / unit.heads) * apart +
                (unit.first_head + row % unit.heads) * shape.head_size);
    }
  }

  static std::int64_t row_step(const AttentionGradient& sequence, std::int64_t width) {
    return sequence.gradient_stride == 0 ? width : sequence.gradient_stride;
  }

  template <class Element>
  static void write(const float* sums, std::int64_t head_size, Element* target) {
    for (std::int64_t d = 0; d < head_size; d += 16) store_some(L::load(sums + d), target + d, head_size - d);
  }

  static void attend_queries_back(const AttentionGradientJob& job, std::int64_t begin, std::int64_t end) {
    QuerySpace space;
    Operands::clear(static_cast<float*>(space.scores), most_unit_rows * chunk_keys);
    Operands::clear(static_cast<float*>(space.slopes), most_unit_rows * chunk_keys);
    for (std::int64_t i = begin; i < end; ++i) {
      with_element(job.io, [&](auto element) {
        query_unit<decltype(element)>(job, job.query_units[static_cast<std::size_t>(i)], space);
      });
    }
  }

  // ---- the keys' and values' gradients: rows are keys, columns are queries of one head ----

  struct KeySpace {
    alignas(64) float keys[chunk_keys * most_head_size];       // tiles
    alignas(64) float values[chunk_keys * most_head_size];     // tiles
    alignas(64) float queries[chunk_keys * most_head_size];    // panels
    alignas(64) float gradients[chunk_keys * most_head_size];  // panels of the output's
    alignas(64) float query_rows[chunk_keys * most_head_size];
    alignas(64) float gradient_rows[chunk_keys * most_head_size];
    alignas(64) float weights[chunk_keys * chunk_keys];
    alignas(64) float slopes[chunk_keys * chunk_keys];
    alignas(64) float key_sums[chunk_keys * most_head_size];
    alignas(64) float value_sums[chunk_keys * most_head_size];
  };

  // Up to 64 queries of one head.
  struct Queries {
    std::int64_t start, count;
    const float* log_sums;
    const float* row_sums;
  };

  // Which of the queries see the key at this position.
  static Sight seen_by(const AttentionShape& shape, std::int64_t key, const Queries& queries) {
    const std::int64_t first = key - queries.start;
    const std::int64_t last = shape.window ? key + *shape.window - queries.start : queries.count;
    return {first > 0 ? first : 0, last < queries.count ? last : queries.count};
  }

  static void slope_of_key(const AttentionShape& shape, Sight sight, const Queries& queries, float* weights,
                           float* slopes) {
    const L scale = L::broadcast(shape.scale);
    for (int c = 0; c * 16 < queries.count; ++c) {
      const L log_sum = load_some<L>(queries.log_sums + c * 16, queries.count - c * 16);
      const L row_sum = load_some<L>(queries.row_sums + c * 16, queries.count - c * 16);
      const L weight = exponential(L::load(weights + c * 16) * scale - log_sum);
      const L slope = weight * (L::load(slopes + c * 16) - row_sum) * scale;
      Operands::within(sight, c, weight, 0.0F).store(weights + c * 16);
      Operands::within(sight, c, slope, 0.0F).store(slopes + c * 16);
    }
  }

  static void key_tile(const AttentionShape& shape, std::int64_t first_key_position, const Queries& queries,
                       std::int64_t row, std::int64_t rows, KeySpace& space) {
    const std::int64_t head_size = shape.head_size;
    const std::int64_t position = first_key_position + row;
    const Sight widest{seen_by(shape, position, queries).first, seen_by(shape, position + rows - 1, queries).last};
    if (widest.last <= widest.first) return;
    float* weights = space.weights + row * chunk_keys;
    float* slopes = space.slopes + row * chunk_keys;
    Operands::score(space.keys + row * head_size, rows, space.queries, widest.last, head_size, weights);
    Operands::score(space.values + row * head_size, rows, space.gradients, widest.last, head_size, slopes);
    for (std::int64_t r = 0; r < rows; ++r) {
      slope_of_key(shape, seen_by(shape, position + r, queries), queries, weights + r * chunk_keys,
                   slopes + r * chunk_keys);
    }
    Operands::weigh(weights, rows, widest, space.gradient_rows, padded(head_size), head_size,
                    space.value_sums + row * padded(head_size));
    Operands::weigh(slopes, rows, widest, space.query_rows, padded(head_size), head_size,
                    space.key_sums + row * padded(head_size));
  }

  template <class Element>
  static void key_head(const AttentionGradientJob& job, const AttentionUnit& unit, std::int64_t head, KeySpace& space) {
    const AttentionShape& shape = job.shape;
    const AttentionGradient& sequence = job.sequences[static_cast<std::size_t>(unit.sequence)];
    const float* row_sums = job.row_sums[static_cast<std::size_t>(unit.sequence)] + head * sequence.rows;
    const std::int64_t stride = shape.heads * shape.head_size;
    const std::int64_t last_key = unit.first_query + unit.queries - 1;
    const std::int64_t seen = shape.window ? last_key + *shape.window : sequence.rows;
    const std::int64_t past = seen < sequence.rows ? seen : sequence.rows;
    const Partition tiles(unit.queries, L::tile_rows);
    for (std::int64_t start = unit.first_query; start < past; start += chunk_keys) {
      const std::int64_t count = past - start < chunk_keys ? past - start : chunk_keys;
      const std::int64_t place = start * stride + head * shape.head_size;
      const Element* query = static_cast<const Element*>(sequence.queries) + place;
      const Element* gradient = static_cast<const Element*>(sequence.output_gradient) + place;
      Operands::turn(query, stride, count, shape.head_size, static_cast<float*>(space.queries));
      Operands::turn(gradient, stride, count, shape.head_size, static_cast<float*>(space.gradients));
      Operands::copy(query, stride, count, shape.head_size, static_cast<float*>(space.query_rows));
      Operands::copy(gradient, stride, count, shape.head_size, static_cast<float*>(space.gradient_rows));
      const Queries queries{start, count, sequence.log_sum + head * sequence.rows + start, row_sums + start};
      for (std::int64_t t = 0; t < tiles.parts(); ++t) {
        key_tile(shape, unit.first_query, queries, tiles.start(t), tiles.size(t), space);
      }
    }
  }

  template <class Element>
  static void key_unit(const AttentionGradientJob& job, const AttentionUnit& unit, KeySpace& space) {
    const AttentionShape& shape = job.shape;
    const AttentionGradient& sequence = job.sequences[static_cast<std::size_t>(unit.sequence)];
    const std::int64_t shared = shape.heads / shape.kv_heads;
    const std::int64_t stride = shape.kv_heads * shape.head_size;
    const std::int64_t place = unit.first_query * stride + unit.first_head / shared * shape.head_size;
    const auto row_of = [&](const void* base) {
      return [=](std::int64_t row) { return static_cast<const Element*>(base) + place + row * stride; };
    };
    Operands::pack(row_of(sequence.keys), unit.queries, shape.head_size, static_cast<float*>(space.keys));
    Operands::pack(row_of(sequence.values), unit.queries, shape.head_size, static_cast<float*>(space.values));
    Operands::clear(static_cast<float*>(space.key_sums), unit.queries * padded(shape.head_size));
    Operands::clear(static_cast<float*>(space.value_sums), unit.queries * padded(shape.head_size));
    for (std::int64_t head = unit.first_head; head < unit.first_head + shared; ++head) {
      key_head<Element>(job, unit, head, space);
    }
    const std::int64_t apart = row_step(sequence, stride);
    for (std::int64_t row = 0; row < unit.queries; ++row) {
      const std::int64_t to = (unit.first_query + row) * apart + unit.first_head / shared * shape.head_size;
      write(space.key_sums + row * padded(shape.head_size), shape.head_size,
            static_cast<Element*>(sequence.key_gradient) + to);
      write(space.value_sums + row * padded(shape.head_size), shape.head_size,
            static_cast<Element*>(sequence.value_gradient) + to);
    }
  }

  static void attend_keys_back(const AttentionGradientJob& job, std::int64_t begin, std::int64_t end) {
    KeySpace space;
    Operands::clear(static_cast<float*>(space.weights), chunk_keys * chunk_keys);
    Operands::clear(static_cast<float*>(space.slopes), chunk_keys * chunk_keys);
    for (std::int64_t i = begin; i < end; ++i) {
      with_element(job.io, [&](auto element) {
        key_unit<decltype(element)>(job, job.key_units[static_cast<std::size_t>(i)], space);
      });
    }
  }
};

}  // namespace muster::kernels
