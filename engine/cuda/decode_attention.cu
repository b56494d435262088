// Attention of single rows over cached keys. One block of threads takes 64 keys of one sequence for all query heads
// that share a key head; the last one to finish joins the parts in order.
#include <type_traits>

#include "cuda/dispatch.cuh"
#include "cuda/pack.cuh"
#include "cuda/warp.cuh"

namespace muster::cuda {
namespace {

constexpr int threads = 128;
constexpr int part_keys = 64;
constexpr int most_group = 8;  // query heads of one block of threads
constexpr int key_lanes = 8;  // share a key, eight elements each at a time
constexpr int keys_at_once = threads / key_lanes;

struct Place {
  std::int64_t row, position, first_part, last_part;
};

__device__ Place place_of(const AttentionShape& shape, const DecodeTables& tables, std::int64_t index) {
  Place place;
  place.row = tables.rows[index];
  place.position = tables.positions[place.row];
  const std::int64_t first = shape.window > 0 && place.position >= shape.window ? place.position - shape.window + 1 : 0;
  place.first_part = first / part_keys;
  place.last_part = place.position / part_keys;
  return place;
}

__device__ float* partial_of(const AttentionShape& shape, std::int64_t parts, float* scratch, std::int64_t index,
                             std::int64_t head, std::int64_t part) {
  return scratch + ((index * shape.heads + head) * parts + part) * (shape.head_size + 2);
}

// sums: [group, size] of the whole sequence, divided by their totals.
template <class T>
__device__ void join_parts(const AttentionShape& shape, std::int64_t parts, float* scratch, std::int64_t index,
                           const Place& place, std::int64_t first_head, int group, T* output) {
  const int size = static_cast<int>(shape.head_size);
  for (int at = static_cast<int>(threadIdx.x); at < group * size; at += threads) {
    const std::int64_t head = first_head + at / size;
    float highest = -INFINITY;
    for (std::int64_t part = place.first_part; part <= place.last_part; ++part)
      highest = fmaxf(highest, *partial_of(shape, parts, scratch, index, head, part));
    float total = 0, sum = 0;
    for (std::int64_t part = place.first_part; part <= place.last_part; ++part) {
      const float* partial = partial_of(shape, parts, scratch, index, head, part);
      const float shrink = expf(partial[0] - highest);
      total = __fmaf_rn(partial[1], shrink, total);
      sum = __fmaf_rn(partial[2 + at % size], shrink, sum);
    }
    output[(place.row * shape.heads + head) * size + at % size] = narrow<T>(sum / total);
  }
}

// Where the keys of a part lie, in elements from the cache's beginning; -1: the row does not see it.
__device__ void find_places(const AttentionShape& shape, const DecodeTables& tables, const Place& place,
                            std::int64_t index, std::int64_t begin, std::int64_t kv_head, std::int64_t* places) {
  const std::int64_t least = shape.window > 0 && place.position >= shape.window ? place.position - shape.window + 1 : 0;
  for (int at = static_cast<int>(threadIdx.x); at < part_keys; at += threads) {
    const std::int64_t key = begin + at;
    places[at] = -1;
    if (key < least || key > place.position) continue;
    const auto tokens = static_cast<unsigned>(tables.block_tokens);
    const auto number = static_cast<unsigned>(key);
    const std::int64_t block = tables.blocks[index * tables.most_blocks + number / tokens];
    places[at] = ((block * tables.block_tokens + number % tokens) * shape.kv_heads + kv_head) * shape.head_size;
  }
}

// scores[group, part_keys]: queries · keys; -infinity where a key is not seen. chunks: eights of a lane.
template <class T, int group, int chunks>
__device__ void score_keys(const T* keys, const std::int64_t* places, const float* query, int size, float* scores) {
  const int lane = static_cast<int>(threadIdx.x) % key_lanes, first_key = static_cast<int>(threadIdx.x) / key_lanes;
#pragma unroll 4
  for (int at = first_key; at < part_keys; at += keys_at_once) {
    Pack<T, 8> elements[chunks] = {};
    if (places[at] >= 0) {
#pragma unroll
      for (int chunk = 0; chunk < chunks; ++chunk)
        if (const int first = (chunk * key_lanes + lane) * 8; first < size)
          elements[chunk] = *reinterpret_cast<const Pack<T, 8>*>(keys + places[at] + first);
    }
    float sums[group];
#pragma unroll
    for (int head = 0; head < group; ++head) {
      sums[head] = 0;
#pragma unroll
      for (int chunk = 0; chunk < chunks; ++chunk) {
        const int first = (chunk * key_lanes + lane) * 8;
        if (first >= size) continue;
#pragma unroll
        for (int i = 0; i < 8; ++i)
          sums[head] = __fmaf_rn(query[head * size + first + i], widen(elements[chunk].values[i]), sums[head]);
      }
    }
#pragma unroll
    for (int head = 0; head < group; ++head) {
      for (int offset = key_lanes / 2; offset > 0; offset /= 2)
        sums[head] += __shfl_xor_sync(whole_warp, sums[head], offset);
      if (lane == 0) scores[head * part_keys + at] = places[at] >= 0 ? sums[head] : -INFINITY;
    }
  }
}

// sums[slices, group, size] in shared memory: each slice of the threads adds up every slices-th key.
template <class T, int group>
__device__ void weigh_values(const T* values, const std::int64_t* places, const float* weights, int size, int slices,
                             float* sums) {
  const int pairs = size / 2, slice = static_cast<int>(threadIdx.x) / pairs;
  if (slice >= slices) return;
  const int element = 2 * (static_cast<int>(threadIdx.x) % pairs);
  float first[group], second[group];
#pragma unroll
  for (int head = 0; head < group; ++head) first[head] = second[head] = 0;
#pragma unroll 16
  for (int at = slice; at < part_keys; at += slices) {
    if (places[at] < 0) continue;
    const auto two = *reinterpret_cast<const Pack<T, 2>*>(values + places[at] + element);
    const float a = widen(two.values[0]), b = widen(two.values[1]);
#pragma unroll
    for (int head = 0; head < group; ++head) {
      const float weight = weights[head * part_keys + at];
      first[head] = __fmaf_rn(weight, a, first[head]);
      second[head] = __fmaf_rn(weight, b, second[head]);
    }
  }
#pragma unroll
  for (int head = 0; head < group; ++head) {
    float* to = sums + (slice * group + head) * size + element;
    to[0] = first[head];
    to[1] = second[head];
  }
}

// A warp for each head: scores become weights.
template <int group>
__device__ void weigh_keys(float* scores, float* highest, float* total) {
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  for (int head = static_cast<int>(threadIdx.x) / lanes; head < group; head += threads / lanes) {
    float* own = scores + head * part_keys;
    float most = -INFINITY, sum = 0;
    for (int at = lane; at < part_keys; at += lanes) most = fmaxf(most, own[at]);
    most = warp_max(most);
    for (int at = lane; at < part_keys; at += lanes) {
      own[at] = expf(own[at] - most);
      sum += own[at];
    }
    sum = warp_sum(sum);
    if (lane == 0) highest[head] = most, total[head] = sum;
  }
}

// At most as many threads as there are.
__host__ __device__ int slices_of(int size) { return size / 2 >= threads ? 1 : threads / (size / 2); }

template <class T, int group, int chunks>
__global__ void __launch_bounds__(threads)
    decode(AttentionShape shape, DecodeTables tables, const T* queries, float* scratch, unsigned* counters,
           int group_blocks, T* output) {
  extern __shared__ float shared[];  // queries [group, size], then scores [group, part_keys], then sums
  __shared__ std::int64_t places[part_keys];
  __shared__ float highest[group], total[group];
  __shared__ bool is_last;
  const std::int64_t index = blockIdx.z, part = blockIdx.x, parts = gridDim.x;
  const Place place = place_of(shape, tables, index);
  if (part < place.first_part || part > place.last_part) return;
  const int size = static_cast<int>(shape.head_size), thread = static_cast<int>(threadIdx.x);
  const auto group_block = static_cast<std::int64_t>(blockIdx.y) % group_blocks;
  const std::int64_t kv_head = static_cast<std::int64_t>(blockIdx.y) / group_blocks;
  const std::int64_t all = shape.heads / shape.kv_heads;  // query heads of a key head
  const std::int64_t first_head = kv_head * all + group_block * group;
  const std::int64_t left = all - group_block * group;
  const int own = static_cast<int>(left < group ? left : group);
  float* query = shared;
  float* scores = query + group * size;
  float* sums = scores + group * part_keys;
  for (int at = thread; at < group * size; at += threads)
    query[at] = at / size < own ? widen(queries[(place.row * shape.heads + first_head) * size + at]) * shape.scale : 0;
  find_places(shape, tables, place, index, part * part_keys, kv_head, places);
  __syncthreads();
  score_keys<T, group, chunks>(static_cast<const T*>(tables.keys), places, query, size, scores);
  __syncthreads();
  weigh_keys<group>(scores, highest, total);
  __syncthreads();
  const int slices = slices_of(size);
  weigh_values<T, group>(static_cast<const T*>(tables.values), places, scores, size, slices, sums);
  __syncthreads();

  const bool alone = place.first_part == place.last_part;
  for (int at = thread; at < own * size; at += threads) {
    const int head = at / size, element = at % size;
    float sum = 0;
    for (int slice = 0; slice < slices; ++slice) sum += sums[(slice * group + head) * size + element];
    if (alone)
      output[(place.row * shape.heads + first_head) * size + at] = narrow<T>(sum / total[head]);
    else
      partial_of(shape, parts, scratch, index, first_head + head, part)[2 + element] = sum;
  }
  if (alone) return;
  if (thread < own) {
    float* partial = partial_of(shape, parts, scratch, index, first_head + thread, part);
    partial[0] = highest[thread];
    partial[1] = total[thread];
  }
  __threadfence();
  __syncthreads();
  if (thread == 0) {
    unsigned* counter = counters + index * gridDim.y + blockIdx.y;
    const auto others = static_cast<unsigned>(place.last_part - place.first_part);
    is_last = atomicAdd(counter, 1u) == others;
    if (is_last) *counter = 0;
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  join_parts(shape, parts, scratch, index, place, first_head, own, output);
}

std::int64_t group_of(const AttentionShape& shape) {
  const std::int64_t all = shape.heads / shape.kv_heads;
  return all < most_group ? all : most_group;
}
std::int64_t group_blocks_of(const AttentionShape& shape) {
  const std::int64_t all = shape.heads / shape.kv_heads, group = group_of(shape);
  return (all + group - 1) / group;
}
std::int64_t parts_of(const DecodeTables& tables) {
  return (tables.most_blocks * tables.block_tokens + part_keys - 1) / part_keys;
}

}  // namespace

std::int64_t decode_scratch(const AttentionShape& shape, const DecodeTables& tables) {
  return tables.count * shape.heads * parts_of(tables) * (shape.head_size + 2);
}

std::int64_t decode_counters(const AttentionShape& shape, const DecodeTables& tables) {
  return tables.count * shape.kv_heads * group_blocks_of(shape);
}

LaunchError decode_attention(Stream stream, Scalar scalar, const AttentionShape& shape, const DecodeTables& tables,
                             const void* queries, float* scratch, unsigned* counters, void* output) {
  if (tables.count == 0) return "";
  const int group_blocks = static_cast<int>(group_blocks_of(shape));
  const dim3 grid(static_cast<unsigned>(parts_of(tables)), static_cast<unsigned>(shape.kv_heads * group_blocks),
                  static_cast<unsigned>(tables.count));
  return dispatch(scalar, [&](auto element) {
    using T = decltype(element);
    const auto launch_chunks = [&](auto group, auto chunks) {
      constexpr int heads = decltype(group)::value;
      const int size = static_cast<int>(shape.head_size);
      const auto bytes = static_cast<unsigned>(heads * (size + part_keys + slices_of(size) * size)) * sizeof(float);
      decode<T, heads, decltype(chunks)::value><<<grid, threads, bytes, static_cast<cudaStream_t>(stream)>>>(
          shape, tables, static_cast<const T*>(queries), scratch, counters, group_blocks, static_cast<T*>(output));
    };
    const auto launch = [&](auto group) {
      if (shape.head_size <= 64)
        launch_chunks(group, std::integral_constant<int, 1>());
      else if (shape.head_size <= 128)
        launch_chunks(group, std::integral_constant<int, 2>());
      else
        launch_chunks(group, std::integral_constant<int, 4>());
    };
    switch (group_of(shape)) {
      case 1:
        return launch(std::integral_constant<int, 1>());
      case 2:
        return launch(std::integral_constant<int, 2>());
      case 3:
        return launch(std::integral_constant<int, 3>());
      case 4:
        return launch(std::integral_constant<int, 4>());
      case 5:
        return launch(std::integral_constant<int, 5>());
      case 6:
        return launch(std::integral_constant<int, 6>());
      case 7:
        return launch(std::integral_constant<int, 7>());
      default:
        return launch(std::integral_constant<int, 8>());
    }
  });
}

}  // namespace muster::cuda
