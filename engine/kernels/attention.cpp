#include "kernels/attention.hpp"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "kernels/attention_job.hpp"
#include "kernels/kernel_table.hpp"

namespace muster::kernels {
namespace {

void check(const AttentionShape& shape) {
  if (shape.heads < 1 || shape.kv_heads < 1 || shape.heads % shape.kv_heads != 0) {
    throw std::invalid_argument("attention: the number of heads must be a multiple of the number of key heads");
  }
  if (shape.head_size < 1 || shape.head_size > most_head_size) {
    throw std::invalid_argument("attention: the head size must lie between 1 and 256");
  }
  if (shape.window && *shape.window < 1) throw std::invalid_argument("attention: a window holds at least one key");
}

// Heads of one unit: all that share a key head, unless that leaves threads without work. Bits do not depend on it.
std::int64_t heads_of_a_unit(const AttentionShape& shape, std::int64_t query_rows, int threads) {
  const std::int64_t shared = std::min(shape.heads / shape.kv_heads, most_unit_rows);
  const std::int64_t units = shape.kv_heads * std::max<std::int64_t>(1, query_rows * shared / most_unit_rows);
  const std::int64_t wanted = 3 * std::int64_t{threads};
  if (units >= wanted) return shared;
  const std::int64_t parts = (wanted + units - 1) / units;
  return std::max<std::int64_t>(1, shared / parts);
}

// Queries [0, rows) of every head, in units; later queries first, because they see more keys.
void add_units(const AttentionShape& shape, std::int64_t sequence, std::int64_t rows, std::int64_t heads,
               std::vector<AttentionUnit>& units) {
  const std::int64_t shared = shape.heads / shape.kv_heads;
  const std::int64_t queries = std::max<std::int64_t>(1, most_unit_rows / heads);
  const std::int64_t blocks = (rows + queries - 1) / queries;
  for (std::int64_t block = blocks; block-- > 0;) {
    const std::int64_t first = block * queries;
    for (std::int64_t head = 0; head < shape.heads;) {
      const std::int64_t left = shared - head % shared;
      const std::int64_t count = std::min(heads, left);
      units.push_back({sequence, head, count, first, std::min(queries, rows - first)});
      head += count;
    }
  }
}

// Many small units are shared out several at a time.
std::int64_t units_at_once(std::size_t units, const ThreadTeam& team) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(units) / (std::int64_t{team.size()} * 16));
}

std::int64_t sum_of_rows(const auto& sequences) {
  std::int64_t rows = 0;
  for (const auto& sequence : sequences) rows += sequence.rows;
  return rows;
}

std::vector<AttentionUnit> query_units(const AttentionShape& shape, const auto& sequences, int threads) {
  const std::int64_t heads = heads_of_a_unit(shape, sum_of_rows(sequences), threads);
  std::vector<AttentionUnit> units;
  std::int64_t number = 0;
  for (const auto& sequence : sequences) add_units(shape, number++, sequence.rows, heads, units);
  return units;
}

std::vector<AttentionUnit> key_units(const AttentionShape& shape, std::span<const AttentionGradient> sequences) {
  std::vector<AttentionUnit> units;
  std::int64_t number = 0;
  for (const AttentionGradient& sequence : sequences) {
    for (std::int64_t start = 0; start < sequence.rows; start += chunk_keys) {
      for (std::int64_t head = 0; head < shape.heads; head += shape.heads / shape.kv_heads) {
        units.push_back({number, head, 1, start, std::min(chunk_keys, sequence.rows - start)});
      }
    }
    ++number;
  }
  return units;
}

}  // namespace

void attention(ThreadTeam& team, const AttentionShape& shape, Scalar io, std::span<const AttentionSequence> sequences) {
  check(shape);
  const std::vector<AttentionUnit> units = query_units(shape, sequences, team.size());
  const AttentionJob job{shape, io, sequences, units};
  team.split(static_cast<std::int64_t>(units.size()), units_at_once(units.size(), team),
             [&](std::int64_t begin, std::int64_t end) { team.kernels().attend(job, begin, end); });
}

void attention_gradient(ThreadTeam& team, const AttentionShape& shape, Scalar io,
                        std::span<const AttentionGradient> sequences) {
  check(shape);
  const std::vector<AttentionUnit> queries = query_units(shape, sequences, team.size());
  const std::vector<AttentionUnit> keys = key_units(shape, sequences);
  float* next = team.workspace(static_cast<std::size_t>(sum_of_rows(sequences) * shape.heads));
  std::vector<float*> row_sums;
  for (const AttentionGradient& sequence : sequences) {
    row_sums.push_back(next);
    next += sequence.rows * shape.heads;
  }
  const AttentionGradientJob job{shape, io, sequences, queries, keys, row_sums};
  const auto share = [&](std::size_t units, auto kernel) {
    team.split(static_cast<std::int64_t>(units), units_at_once(units, team),
               [&](std::int64_t begin, std::int64_t end) { kernel(job, begin, end); });
  };
  share(queries.size(), team.kernels().sum_attention_rows);
  share(queries.size(), team.kernels().attend_queries_back);
  share(keys.size(), team.kernels().attend_keys_back);
}

}  // namespace muster::kernels
