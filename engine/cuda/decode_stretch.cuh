// A stretch of a sequence as decode_attention's kernels see it: where it lies, and how its results are handed over.
#pragma once

#include <type_traits>

#include "cuda/device_kernels.hpp"
#include "cuda/pack.cuh"
#include "cuda/scalar.cuh"
#include "cuda/warp.cuh"

namespace muster::cuda {

constexpr int threads = 128;
constexpr int most_group = 8;  // query heads of one block of threads
constexpr int eight = 8;       // elements of a head that a thread has

// What one block of threads looks at.
struct Place {
  std::int64_t row, position;
  std::int64_t least;               // the first key that the row sees
  int first_stretch, last_stretch;  // of the row
};

__device__ inline Place place_of(const AttentionShape& shape, const DecodeTables& tables, std::int64_t index,
                                 int stretch_keys) {
  Place place;
  place.row = tables.rows[index];
  place.position = tables.positions[place.row];
  place.least = shape.window > 0 && place.position >= shape.window ? place.position - shape.window + 1 : 0;
  place.first_stretch = static_cast<int>(static_cast<unsigned>(place.least) / static_cast<unsigned>(stretch_keys));
  place.last_stretch = static_cast<int>(static_cast<unsigned>(place.position) / static_cast<unsigned>(stretch_keys));
  return place;
}

// What a stretch gave for a head: the sum of weighed values, then the highest score and the sum of the weights.
__host__ __device__ inline std::int64_t partial_size(const AttentionShape& shape) { return shape.head_size + 4; }

// For the first stretch.
__device__ inline float* partial_of(const AttentionShape& shape, std::int64_t stretches, float* scratch,
                                    std::int64_t index, std::int64_t head) {
  return scratch + (index * shape.heads + head) * stretches * partial_size(shape);
}

using Floats = Pack<float, eight>;

template <class T>
__device__ void put(const Floats& sums, T* to) {
  Pack<T, eight> rounded;
#pragma unroll
  for (int i = 0; i < eight; ++i) rounded.values[i] = narrow<T>(sums.values[i]);
  *reinterpret_cast<Pack<T, eight>*>(to) = rounded;
}

// What the stretches gave, each weighed, summed in order. Read past the nearest cache, which may hold a line from
// before another block of threads wrote into it. weights: memory that nobody else uses now, `room` numbers for each
// `width` threads.
template <class T, int group, int width>
__device__ void join_parts(const AttentionShape& shape, const float* partials, std::int64_t head_stride, int parts,
                           int count, float* weights, int room, T* output) {
  __shared__ float highest[group], total[group];
  const int size = static_cast<int>(shape.head_size), thread = static_cast<int>(threadIdx.x), lane = thread % lanes;
  const std::int64_t stride = partial_size(shape);
  for (int head = thread / lanes; head < count; head += threads / lanes) {
    const float* found = partials + head * head_stride + size;
    float most = -INFINITY, sum = 0;
    for (int part = lane; part < parts; part += lanes) most = fmaxf(most, __ldcg(found + part * stride));
    most = warp_max(most);
    for (int part = lane; part < parts; part += lanes)
      sum = __fmaf_rn(__ldcg(found + part * stride + 1), expf(__ldcg(found + part * stride) - most), sum);
    sum = warp_sum(sum);
    if (lane == 0) highest[head] = most, total[head] = sum;
  }
  __syncthreads();
  const int element = thread % width * eight;
  for (int first = 0; first < count; first += threads / width) {
    const int head = first + thread / width;
    const bool works = head < count && element < size;
    const float* found = partials + (head < count ? head * head_stride : 0);
    Floats sums = {};
    for (int begin = 0; begin < parts; begin += room) {
      const int some = min(room, parts - begin);
      if (head < count)
        for (int part = thread % width; part < some; part += width)
          weights[thread / width * room + part] =
              expf(__ldcg(found + (begin + part) * stride + size) - highest[head]) / total[head];
      __syncwarp();
      if (works) {
#pragma unroll 4
        for (int part = 0; part < some; ++part) {
          const auto* from = reinterpret_cast<const float4*>(found + (begin + part) * stride + element);
          const float4 a = __ldcg(from), b = __ldcg(from + 1);
          const float weight = weights[thread / width * room + part];
          const float values[eight] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
          for (int i = 0; i < eight; ++i) sums.values[i] = __fmaf_rn(weight, values[i], sums.values[i]);
        }
      }
      __syncwarp();
    }
    if (works) put(sums, output + head * size + element);
  }
}

// What one block of threads has: all that a stretch of a row is to the query heads of one group.
struct Stretch {
  Place place;
  std::int64_t index;  // of the row among those that are computed
  int number, count;   // which stretch, of how many that any row may have
  int kv_head;
  int first_head, heads;
  std::int64_t of_row;  // where its queries and its output lie

  __device__ bool is_seen() const { return number >= place.first_stretch && number <= place.last_stretch; }
};

// group: heads of a block; blocks lie as [row, kv_head * group_blocks + group block, stretch].
__device__ inline Stretch own_stretch(const AttentionShape& shape, const DecodeTables& tables, int stretch_keys,
                                      int group, int group_blocks) {
  Stretch stretch;
  stretch.index = blockIdx.z;
  stretch.number = static_cast<int>(blockIdx.x), stretch.count = static_cast<int>(gridDim.x);
  stretch.place = place_of(shape, tables, stretch.index, stretch_keys);
  stretch.kv_head = static_cast<int>(blockIdx.y) / group_blocks;
  const int group_block = static_cast<int>(blockIdx.y) % group_blocks;
  const int all = static_cast<int>(shape.heads / shape.kv_heads);  // query heads of a key head
  stretch.first_head = stretch.kv_head * all + group_block * group;
  stretch.heads = min(all - group_block * group, group);
  stretch.of_row = (stretch.place.row * shape.heads + stretch.first_head) * shape.head_size;
  return stretch;
}

// Adds up what the slices of a block found, sums[slices, group, head_size] in shared memory, and makes it the output;
// or hands it over where the row has several stretches, whose last one joins them. highest, total: of each head.
template <class T, int group, int width, int slices>
__device__ void hand_over(const AttentionShape& shape, const Stretch& stretch, float* sums, const float* highest,
                          const float* total, float* scratch, unsigned* counters, T* output) {
  __shared__ bool is_last;
  const int size = static_cast<int>(shape.head_size), thread = static_cast<int>(threadIdx.x);
  const int element = thread % width * eight;
  const Place& place = stretch.place;
  const bool alone = place.first_stretch == place.last_stretch;
  const std::int64_t stride = partial_size(shape), head_stride = stretch.count * stride;
  float* const partials = partial_of(shape, stretch.count, scratch, stretch.index, stretch.first_head);
  __syncthreads();
  for (int head = thread / width; head < stretch.heads && element < size; head += threads / width) {
    Floats sum = {};
#pragma unroll
    for (int slice = 0; slice < slices; ++slice) {
      const auto some = *reinterpret_cast<const Floats*>(sums + (slice * group + head) * size + element);
#pragma unroll
      for (int i = 0; i < eight; ++i) sum.values[i] += some.values[i];
    }
    if (alone) {
#pragma unroll
      for (int i = 0; i < eight; ++i) sum.values[i] /= total[head];
      put(sum, output + stretch.of_row + head * size + element);
    } else {
      float* to = partials + head * head_stride + stretch.number * stride;
      auto* four = reinterpret_cast<float4*>(to + element);
      four[0] = make_float4(sum.values[0], sum.values[1], sum.values[2], sum.values[3]);
      four[1] = make_float4(sum.values[4], sum.values[5], sum.values[6], sum.values[7]);
      if (element == 0) to[size] = highest[head], to[size + 1] = total[head];
    }
  }
  if (alone) return;
  __threadfence();
  __syncthreads();
  const int parts = place.last_stretch - place.first_stretch + 1;
  if (thread == 0) {
    unsigned* counter = counters + stretch.index * gridDim.y + blockIdx.y;
    is_last = atomicAdd(counter, 1u) == static_cast<unsigned>(parts - 1);
    if (is_last) *counter = 0;
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  const int room = slices * group * size / (threads / width);
  join_parts<T, group, width>(shape, partials + place.first_stretch * stride, head_stride, parts, stretch.heads, sums,
                              room, output + stretch.of_row);
}

}  // namespace muster::cuda
