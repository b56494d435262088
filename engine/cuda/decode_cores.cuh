// Attention of single rows by tensor cores. Each warp of a block takes every fourth run of 16 keys on its own, with
// eight query heads as the rows of its products; what the warps found is put together at the end. Nothing goes through
// shared memory before that: a sum of products is the same in whatever order both sides are read, so that each lane
// reads 16 bytes at a time and takes what they hold for its own.
#pragma once

#include "cuda/decode_stretch.cuh"
#include "cuda/dependent_launch.cuh"
#include "cuda/tensor_core.cuh"

namespace muster::cuda {

template <class T>
__device__ unsigned pack_pair(float first, float second) {
  if constexpr (std::is_same_v<T, __half>) {
    const __half2 pair = __floats2half2_rn(first, second);
    return *reinterpret_cast<const unsigned*>(&pair);
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return *reinterpret_cast<const unsigned*>(&pair);
  }
}

// One of the eight numbers in each of two packs.
__device__ inline unsigned pair_of(const uint4& first, const uint4& second, int number) {
  const unsigned a = number < 2 ? first.x : number < 4 ? first.y : number < 6 ? first.z : first.w;
  const unsigned b = number < 2 ? second.x : number < 4 ? second.y : number < 6 ? second.z : second.w;
  return __byte_perm(a, b, number % 2 == 0 ? 0x5410 : 0x7632);
}

constexpr int core_heads = 8, core_keys = 16;

// What a warp found so far. Lane 4 i + j has query head i.
template <class T, int size>
class CoreWarp {
  static constexpr int packs = size / 32;   // of a query or key, in each lane
  static constexpr int groups = size / 64;  // of values

 public:
  __device__ CoreWarp(const T* queries, int heads)
      : head_(static_cast<int>(threadIdx.x) % lanes / 4), part_(static_cast<int>(threadIdx.x) % 4) {
#pragma unroll
    for (int i = 0; i < packs; ++i)
      queries_[i] =
          head_ < heads ? *reinterpret_cast<const uint4*>(queries + head_ * size + 32 * i + 8 * part_) : uint4{};
  }

  // 16 keys and their values, which lie `stride` elements apart; from the first to the last that is seen.
  __device__ void take(const T* keys, const T* values, std::int64_t stride, int first, int last, float scale) {
    uint4 key[2][packs], value[4][groups];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const T* from = keys + min(max(half * 8 + head_, first), last) * stride + 8 * part_;
#pragma unroll
      for (int i = 0; i < packs; ++i) key[half][i] = *reinterpret_cast<const uint4*>(from + 32 * i);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const T* from = values + min(max(key_of(i), first), last) * stride + 8 * head_;
#pragma unroll
      for (int group = 0; group < groups; ++group) value[i][group] = *reinterpret_cast<const uint4*>(from + 64 * group);
    }
    float score[4];
    multiply_keys(key, score);
#pragma unroll
    for (int i = 0; i < 4; ++i) score[i] = key_of(i) >= first && key_of(i) <= last ? score[i] * scale : -INFINITY;
    weigh(score);
    const unsigned weights[4] = {pack_pair<T>(score[0], score[1]), 0, pack_pair<T>(score[2], score[3]), 0};
#pragma unroll
    for (int group = 0; group < groups; ++group)
#pragma unroll
      for (int i = 0; i < eight; ++i)
        multiply_tile<T>(sums_[group * eight + i], weights, pair_of(value[0][group], value[1][group], i),
                         pair_of(value[2][group], value[3][group], i));
  }

  // sums[core_heads, size] relative to the highest score of all warps; highest, total of each head: of all warps.
  __device__ void tell(float* sums, float* highest, float* total) {
    constexpr int warps = threads / lanes;
    __shared__ float of_warp[2][warps][core_heads];
    const int warp = static_cast<int>(threadIdx.x) / lanes;
    total_ += __shfl_xor_sync(whole_warp, total_, 1);
    total_ += __shfl_xor_sync(whole_warp, total_, 2);
    if (part_ == 0) of_warp[0][warp][head_] = highest_, of_warp[1][warp][head_] = total_;
    __syncthreads();
    float most = -INFINITY, all = 0;
#pragma unroll
    for (int i = 0; i < warps; ++i) most = fmaxf(most, of_warp[0][i][head_]);
#pragma unroll
    for (int i = 0; i < warps; ++i) all = __fmaf_rn(of_warp[1][i][head_], expf(of_warp[0][i][head_] - most), all);
    if (part_ == 0 && warp == 0) highest[head_] = most, total[head_] = all;
    const float weight = expf(highest_ - most);
    float* const to = sums + (warp * core_heads + head_) * size;
#pragma unroll
    for (int group = 0; group < groups; ++group)
#pragma unroll
      for (int i = 0; i < eight; ++i)
#pragma unroll
        for (int side = 0; side < 2; ++side)
          to[64 * group + 8 * (2 * part_ + side) + i] = sums_[group * eight + i][side] * weight;
  }

 private:
  // The key of score i.
  __device__ int key_of(int i) const { return i / 2 * 8 + 2 * part_ + i % 2; }

  __device__ void multiply_keys(const uint4 (&key)[2][packs], float (&score)[4]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum[4] = {};
#pragma unroll
      for (int i = 0; i < packs; ++i) {
        multiply_tile<T>(sum, {queries_[i].x, 0, queries_[i].y, 0}, key[half][i].x, key[half][i].y);
        multiply_tile<T>(sum, {queries_[i].z, 0, queries_[i].w, 0}, key[half][i].z, key[half][i].w);
      }
      score[2 * half] = sum[0], score[2 * half + 1] = sum[1];
    }
  }

  // Scores become weights. At least one key of the 16 is seen.
  __device__ void weigh(float (&score)[4]) {
    float most = fmaxf(fmaxf(score[0], score[1]), fmaxf(score[2], score[3]));
    most = fmaxf(most, __shfl_xor_sync(whole_warp, most, 1));
    most = fmaxf(most, __shfl_xor_sync(whole_warp, most, 2));
    most = fmaxf(most, highest_);
    const float shrink = expf(highest_ - most);
    highest_ = most;
    total_ *= shrink;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      score[i] = expf(score[i] - most);
      total_ += score[i];
    }
#pragma unroll
    for (int i = 0; i < groups * eight; ++i) sums_[i][0] *= shrink, sums_[i][1] *= shrink;
  }

  int head_, part_;
  uint4 queries_[packs];
  float highest_ = -INFINITY, total_ = 0;
  float sums_[groups * eight][4] = {};
};

template <class T, int size>
__global__ void __launch_bounds__(threads, size <= 64 ? 3 : 2)
    decode_by_cores(AttentionShape shape, DecodeTables tables, const T* queries, int stretch_keys, float* scratch,
                    unsigned* counters, int group_blocks, T* output) {
  constexpr int warps = threads / lanes, width = size / eight;
  __shared__ alignas(32) float sums[warps * core_heads * size];
  __shared__ float highest[core_heads], total[core_heads];
  wait_for_those_before();
  const Stretch stretch = own_stretch(shape, tables, stretch_keys, core_heads, group_blocks);
  const Place& place = stretch.place;
  if (!stretch.is_seen()) return;
  CoreWarp<T, size> warp(queries + stretch.of_row, stretch.heads);
  const auto first = static_cast<int>(place.least), last = static_cast<int>(place.position);
  const int begin = stretch.number * stretch_keys, end = min(begin + stretch_keys, last + 1);
  const int own = static_cast<int>(threadIdx.x) / lanes * core_keys;
  const auto tokens = static_cast<int>(tables.block_tokens);
  const std::int64_t* const blocks = tables.blocks + stretch.index * tables.most_blocks;
  const std::int64_t stride = shape.kv_heads * size;
#pragma unroll 1
  for (int key = max(begin, first / (warps * core_keys) * (warps * core_keys)) + own; key < end;
       key += warps * core_keys) {
    if (key + core_keys <= first) continue;
    const std::int64_t from = (blocks[key / tokens] * tokens + key % tokens) * stride + stretch.kv_head * size;
    warp.take(static_cast<const T*>(tables.keys) + from, static_cast<const T*>(tables.values) + from, stride,
              max(first - key, 0), min(last - key, core_keys - 1), shape.scale);
  }
  warp.tell(sums, highest, total);
  hand_over<T, core_heads, width, warps>(shape, stretch, sums, highest, total, scratch, counters, output);
}

}  // namespace muster::cuda
