// Attention over a cache of keys and values, forward and backward. A query's result is one chain that depends on its
// own position, query and keys alone: keys are taken in chunks of 64 from position 0, so that a prompt at once, in
// pieces or token by token gives the same bits, whatever else is computed in the same call.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "kernels/scalar.hpp"
#include "kernels/thread_team.hpp"

namespace muster::kernels {

constexpr std::int64_t most_head_size = 256;

struct AttentionShape {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;   // divides heads
  std::int64_t head_size = 0;  // at most most_head_size
  float scale = 1.0F;
  std::optional<std::int64_t> window = std::nullopt;  // keys a query sees, its own included
};

// Block b holds positions b * block_tokens and on, each [kv_heads, head_size]. A tensor in one piece is one block, of
// which only the positions that queries see are read.
struct KeyValueBlocks {
  std::int64_t block_tokens = 0;  // a multiple of 64, or at least the number of positions
  const void* const* keys = nullptr;
  const void* const* values = nullptr;
  std::int64_t token_stride = 0;  // elements from one position to the next
};

struct AttentionSequence {
  const void* queries = nullptr;  // [rows, heads, head_size]
  void* output = nullptr;         // [rows, heads, head_size]
  std::int64_t rows = 0;
  std::int64_t position = 0;  // of the first query. Query i sees the keys up to position + i, window of them at most
  KeyValueBlocks cache;       // the queries' own positions included
  float* log_sum = nullptr;   // [heads, rows], where the backward pass is to follow
};

// Throws std::invalid_argument for a shape that makes no sense.
void attention(ThreadTeam& team, const AttentionShape& shape, Scalar io, std::span<const AttentionSequence> sequences);

// One whole sequence from position 0, everything in one piece: queries, output and their gradients [rows, heads,
// head_size], keys, values and theirs [rows, kv_heads, head_size].
struct AttentionGradient {
  const void* queries = nullptr;
  const void* keys = nullptr;
  const void* values = nullptr;
  const void* output = nullptr;
  const float* log_sum = nullptr;  // [heads, rows]
  const void* output_gradient = nullptr;
  void* query_gradient = nullptr;
  void* key_gradient = nullptr;
  void* value_gradient = nullptr;
  std::int64_t rows = 0;
  // Elements from one row of the three gradients to the next; 0: they are in one piece.
  std::int64_t gradient_stride = 0;
};

// Sums over keys and over queries run in ascending order, in chunks of 64, heads in ascending order.
void attention_gradient(ThreadTeam& team, const AttentionShape& shape, Scalar io,
                        std::span<const AttentionGradient> sequences);

}  // namespace muster::kernels
