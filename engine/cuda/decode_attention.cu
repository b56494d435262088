// Attention of single rows over cached keys. One block of threads takes 128 keys of one sequence for all query heads
// that share a key head; the last one to finish joins the parts in order.
#include <type_traits>

#include "cuda/dispatch.cuh"
#include "cuda/warp.cuh"

namespace muster::cuda {
namespace {

constexpr int threads = 128;
constexpr int part_keys = threads;  // a thread each
constexpr int most_group = 8;       // query heads of one block of threads
constexpr int most_size = 256;

struct Partial {  // in scratch, before head_size sums
  float highest;
  float total;
};

// Eight elements of one row as floats.
__device__ void load8(const float* from, float* to) {
  const float4 a = *reinterpret_cast<const float4*>(from), b = *reinterpret_cast<const float4*>(from + 4);
  to[0] = a.x, to[1] = a.y, to[2] = a.z, to[3] = a.w, to[4] = b.x, to[5] = b.y, to[6] = b.z, to[7] = b.w;
}
template <class T>
__device__ void load8(const T* from, float* to) {
  const uint4 packed = *reinterpret_cast<const uint4*>(from);
  const T* values = reinterpret_cast<const T*>(&packed);
  for (int i = 0; i < 8; ++i) to[i] = widen(values[i]);
}

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

template <class T, int group>
__global__ void __launch_bounds__(threads)
    decode(AttentionShape shape, DecodeTables tables, const T* queries, float* scratch, unsigned* counters,
           int group_blocks, T* output) {
  __shared__ alignas(16) float query[group * most_size];
  __shared__ alignas(16) float weights[group * part_keys];
  __shared__ float highest[group], total[group];
  __shared__ bool is_last;
  const std::int64_t index = blockIdx.z, part = blockIdx.x, parts = gridDim.x;
  const Place place = place_of(shape, tables, index);
  if (part < place.first_part || part > place.last_part) return;
  const int size = static_cast<int>(shape.head_size), thread = static_cast<int>(threadIdx.x);
  const std::int64_t kv_head = blockIdx.y / static_cast<unsigned>(group_blocks);
  const std::int64_t all = shape.heads / shape.kv_heads;  // query heads of a key head
  const std::int64_t before = static_cast<std::int64_t>(blockIdx.y % static_cast<unsigned>(group_blocks)) * group;
  const std::int64_t first_head = kv_head * all + before;
  const int own = static_cast<int>(all - before < group ? all - before : group);
  for (int at = thread; at < group * size; at += threads)
    query[at] = at / size < own ? widen(queries[(place.row * shape.heads + first_head) * size + at]) * shape.scale : 0;
  __syncthreads();

  const std::int64_t* table = tables.blocks + index * tables.most_blocks;
  const auto key_place = [&](std::int64_t key) {
    return ((table[key / tables.block_tokens] * tables.block_tokens + key % tables.block_tokens) * shape.kv_heads +
            kv_head) *
           size;
  };
  const std::int64_t begin = part * part_keys, key = begin + thread;
  const std::int64_t least = shape.window > 0 && place.position >= shape.window ? place.position - shape.window + 1 : 0;
  float score[group];
  for (int head = 0; head < group; ++head) score[head] = -INFINITY;
  if (key >= least && key <= place.position) {
    const T* from = static_cast<const T*>(tables.keys) + key_place(key);
    for (int head = 0; head < group; ++head) score[head] = 0;
    for (int first = 0; first < size; first += 8) {
      float values[8];
      load8(from + first, values);
#pragma unroll
      for (int head = 0; head < group; ++head) {
        const float4 a = *reinterpret_cast<const float4*>(query + head * size + first);
        const float4 b = *reinterpret_cast<const float4*>(query + head * size + first + 4);
        float sum = score[head];
        sum = __fmaf_rn(a.x, values[0], sum), sum = __fmaf_rn(a.y, values[1], sum);
        sum = __fmaf_rn(a.z, values[2], sum), sum = __fmaf_rn(a.w, values[3], sum);
        sum = __fmaf_rn(b.x, values[4], sum), sum = __fmaf_rn(b.y, values[5], sum);
        sum = __fmaf_rn(b.z, values[6], sum), sum = __fmaf_rn(b.w, values[7], sum);
        score[head] = sum;
      }
    }
  }
  for (int head = 0; head < group; ++head) weights[head * part_keys + thread] = score[head];
  __syncthreads();
  for (int head = thread / lanes; head < group; head += threads / lanes) {
    float* own_weights = weights + head * part_keys;
    const int lane = thread % lanes;
    float most = -INFINITY, sum = 0;
    for (int at = lane; at < part_keys; at += lanes) most = fmaxf(most, own_weights[at]);
    most = warp_max(most);
    for (int at = lane; at < part_keys; at += lanes) {
      const float weight = expf(own_weights[at] - most);
      own_weights[at] = weight;
      sum += weight;
    }
    sum = warp_sum(sum);
    if (lane == 0) highest[head] = most, total[head] = sum;
  }
  __syncthreads();

  const int keys = static_cast<int>(place.position - begin < part_keys - 1 ? place.position - begin + 1 : part_keys);
  const int from_key = static_cast<int>(least > begin ? least - begin : 0);
  const bool alone = place.first_part == place.last_part;
  for (int element = thread; element < size; element += threads) {
    float sum[group];
    for (int head = 0; head < group; ++head) sum[head] = 0;
    const T* values = static_cast<const T*>(tables.values) + element;
#pragma unroll 8
    for (int at = from_key; at < keys; ++at) {
      const float value = widen(values[key_place(begin + at)]);
#pragma unroll
      for (int head = 0; head < group; ++head) sum[head] = __fmaf_rn(weights[head * part_keys + at], value, sum[head]);
    }
    for (int head = 0; head < own; ++head) {
      if (alone)
        output[(place.row * shape.heads + first_head + head) * size + element] = narrow<T>(sum[head] / total[head]);
      else
        partial_of(shape, parts, scratch, index, first_head + head, part)[2 + element] = sum[head];
    }
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
    const auto launch = [&](auto group) {
      decode<T, decltype(group)::value><<<grid, threads, 0, static_cast<cudaStream_t>(stream)>>>(
          shape, tables, static_cast<const T*>(queries), scratch, counters, group_blocks, static_cast<T*>(output));
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
