// Note [A few likely tokens]
// top_k and top_p mostly leave a few tokens of a large vocabulary. One pass over the logits finds them, and then each
// thread has one. What is drawn is the same as if all tokens had been looked at: weights are whole numbers, and the few
// are given up where they might not be all that stay.
#pragma once

#include "cuda/token_row.cuh"

namespace muster::cuda {

constexpr int most_few = threads;        // one for each thread
constexpr int sought_few = threads / 2;  // so that those which come with them have room

// The token of one thread, in the order of the vocabulary; threads beyond the last have weight 0.
struct FewToken {
  std::uint32_t key = 0;
  std::int64_t token = -1;
  Count weight = 0;
};

// The largest key that at least `count` threads reach; 0 where there is none.
__device__ inline std::uint32_t reached_by(std::uint32_t own, int count) {
  std::uint32_t key = 0;
  for (int bit = 31; bit >= 0; --bit) {
    const std::uint32_t tried = key | 1u << bit;
    if (__syncthreads_count(own >= tried ? 1 : 0) >= count) key = tried;
  }
  return key;
}

// All tokens whose keys are at least that of the `sought` highest. highest: of the tokens that this thread looks at.
// False where there are too many.
__device__ inline bool gather_few(const float* judged, std::int64_t width, std::uint32_t highest, int sought,
                                  FewToken& own, int& count) {
  __shared__ std::uint32_t keys[most_few];
  __shared__ std::int32_t tokens[most_few];
  __shared__ int found;
  const std::uint32_t least = reached_by(highest, sought);
  if (threadIdx.x == 0) found = 0;
  __syncthreads();
  for (std::int64_t token = threadIdx.x; token < width; token += threads) {
    if (isnan(judged[token])) continue;
    const std::uint32_t key = ordered(judged[token]);
    if (key < least) continue;
    if (const int place = atomicAdd(&found, 1); place < most_few) {
      keys[place] = key;
      tokens[place] = static_cast<std::int32_t>(token);
    }
  }
  __syncthreads();
  count = found;
  if (least == 0 || count > most_few) return false;
  const int thread = static_cast<int>(threadIdx.x);
  int before = 0;
  std::uint32_t key = 0;
  std::int32_t token = 0;
  if (thread < count) {
    key = keys[thread], token = tokens[thread];
    for (int i = 0; i < count; ++i) before += tokens[i] < token ? 1 : 0;
  }
  __syncthreads();
  if (thread < count) keys[before] = key, tokens[before] = token;
  __syncthreads();
  if (thread < count) own = {keys[thread], tokens[thread], 0};
  return true;
}

// What top_p leaves: row.last and row.ties. False where the few may not be all.
__device__ inline bool keep_likely_few(TokenRow& row, const FewToken& own, int count, double wanted) {
  __shared__ std::uint32_t keys[most_few];
  __shared__ Count weights[most_few];
  const int thread = static_cast<int>(threadIdx.x);
  __syncthreads();
  keys[thread] = own.key, weights[thread] = own.weight;
  __syncthreads();
  Count above = 0, through = 0;
  if (thread < count)
    for (int i = 0; i < count; ++i) {
      if (keys[i] > own.key) above += weights[i];
      if (keys[i] >= own.key) through += weights[i];
    }
  const bool reaches = thread < count && static_cast<double>(through) >= wanted;
  const std::uint32_t last =
      block_join<threads>(reaches ? own.key : 0u, [](std::uint32_t a, std::uint32_t b) { return a > b ? a : b; });
  if (last == 0) return false;
  const Count before = block_join<threads>(thread < count && own.key == last ? above : Count{0},
                                           [](Count a, Count b) { return a > b ? a : b; });
  row.last = last;
  row.ties = ties_within(row, last, before, wanted);
  return true;
}

__device__ inline std::int64_t draw_few(const TokenRow& row, const FewToken& own, int count, double uniform,
                                        std::int64_t likeliest) {
  const long long ties_before =
      exclusive_sum<long long>(static_cast<int>(threadIdx.x) < count && own.key == row.last ? 1 : 0);
  Count weight = own.weight;
  if (own.key < row.last || (own.key == row.last && ties_before >= row.ties)) weight = 0;
  if (static_cast<double>(weight) < row.least_weight) weight = 0;
  const Count total = block_sum<threads>(weight);
  const Count before = exclusive_sum(weight);
  if (total == 0) return likeliest;
  const Count target = target_of(uniform, total);
  __shared__ std::int64_t drawn;
  if (before <= target && target < before + weight) drawn = own.token;
  __syncthreads();
  return drawn;
}

// The token that is drawn where a few are enough to know it; else -1. highest: of the tokens that this thread looks at.
__device__ inline std::int64_t draw_from_few(TokenRow row, const ChoiceRules& rules, std::uint32_t highest,
                                             double uniform, std::int64_t likeliest) {
  const bool cuts = rules.top_k > 0 && rules.top_k < row.width;
  if (cuts ? rules.top_k > sought_few : rules.top_p >= 1) return -1;
  if (rules.top_p <= 0) return -1;
  FewToken own;
  int count = 0;
  if (!gather_few(row.judged, row.width, highest, cuts ? static_cast<int>(rules.top_k) : sought_few, own, count))
    return -1;
  if (cuts) row.least = reached_by(own.key, static_cast<int>(rules.top_k));
  if (static_cast<int>(threadIdx.x) < count && own.key >= row.least) own.weight = row.weight(own.token);
  if (rules.top_p < 1) {
    Count all = own.weight;
    if (!cuts) {
      all = 0;
      for (std::int64_t token = threadIdx.x; token < row.width; token += threads) all += row.weight(token);
    }
    if (!keep_likely_few(row, own, count, rules.top_p * static_cast<double>(block_sum<threads>(all)))) return -1;
  }
  row.least_weight = rules.min_p * kernels::certain_weight;
  return draw_few(row, own, count, uniform, likeliest);
}

}  // namespace muster::cuda
