// What threads share of one call of attention. Inside this layer only.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/attention.hpp"

namespace muster::kernels {

constexpr std::int64_t chunk_keys = 64;
constexpr std::int64_t most_unit_rows = 96;  // (query, head) pairs that share one look at the keys

// Some queries of some heads that share a key head.
struct AttentionUnit {
  std::int64_t sequence = 0;
  std::int64_t first_head = 0;
  std::int64_t heads = 0;
  std::int64_t first_query = 0;
  std::int64_t queries = 0;
};

struct AttentionJob {
  AttentionShape shape;
  Scalar io = Scalar::float32;
  std::span<const AttentionSequence> sequences;
  std::span<const AttentionUnit> units;
};

struct AttentionGradientJob {
  AttentionShape shape;
  Scalar io = Scalar::float32;
  std::span<const AttentionGradient> sequences;
  std::span<const AttentionUnit> query_units;
  std::span<const AttentionUnit> key_units;  // each 64 keys, from position first_query on, of first_head's key head
  std::span<float* const> row_sums;          // per sequence [heads, rows]: output · output_gradient
};

// The keys of a chunk that a query sees: first … last of it, or none where last <= first.
struct Sight {
  std::int64_t first = 0;
  std::int64_t last = 0;
  bool operator==(const Sight&) const = default;
};

[[gnu::always_inline]] inline std::int64_t first_key(const AttentionShape& shape, std::int64_t position) {
  return shape.window && position >= *shape.window ? position - *shape.window + 1 : 0;
}

[[gnu::always_inline]] inline Sight sight_of(const AttentionShape& shape, std::int64_t position,
                                             std::int64_t chunk_start) {
  const std::int64_t first = first_key(shape, position) - chunk_start;
  const std::int64_t last = position + 1 - chunk_start;
  return {first > 0 ? first : 0, last < chunk_keys ? last : chunk_keys};
}

}  // namespace muster::kernels
