// Attention of single rows over cached keys. One block of threads takes a stretch of one sequence, 64 keys at a time,
// for all query heads that share a key head. Long sequences of small batches have several stretches; the last one to
// finish joins what they found, in order.
#include <type_traits>

#include "cuda/decode_cores.cuh"
#include "cuda/decode_stretch.cuh"
#include "cuda/dispatch.cuh"
#include "cuda/dependent_launch.cuh"

namespace muster::cuda {
namespace {

constexpr int part_keys = 64;

// Sums each value over `width` neighbouring lanes. Lane i then has the total of value i / (width / count): half of the
// values are exchanged in each step, instead of all of them.
template <int width, int count>
__device__ float spread_sums(float (&values)[count]) {
  int offset = width / 2;
#pragma unroll
  for (int half = count / 2; half > 0; half /= 2) {
    const bool upper = (threadIdx.x & static_cast<unsigned>(offset)) != 0;
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const float kept = upper ? values[i + half] : values[i], given = upper ? values[i] : values[i + half];
      values[i] = kept + __shfl_xor_sync(whole_warp, given, offset);
    }
    offset /= 2;
  }
  for (; offset > 0; offset /= 2) values[0] += __shfl_xor_sync(whole_warp, values[0], offset);
  return values[0];
}

constexpr int power_of_two_from(int count) { return count <= 1 ? 1 : 2 * power_of_two_from((count + 1) / 2); }

// Eight elements as they lie in memory, each widened when it is asked for: they take half the registers.
template <class T>
struct alignas(eight * sizeof(T)) Eight {
  unsigned words[eight * sizeof(T) / sizeof(unsigned)];

  __device__ float operator[](int index) const {
    if constexpr (sizeof(T) == sizeof(unsigned)) {
      return __uint_as_float(words[index]);
    } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {  // the upper half of a float
      const unsigned word = words[index / 2];
      return __uint_as_float(index % 2 == 0 ? word << 16 : word & 0xffff0000u);
    } else {
      const unsigned word = words[index / 2];
      return __half2float(__ushort_as_half(static_cast<unsigned short>(index % 2 == 0 ? word : word >> 16)));
    }
  }
};

// How the threads share a part: `width` of them have a key, eight elements each, and take every at_once-th one.
template <int group, int width>
struct Sharing {
  static constexpr int at_once = threads / width;
  static constexpr int passes = part_keys / at_once;
  static constexpr int heads = power_of_two_from(group);  // weights lie in rows of this many
};

// rows[part_keys]: where a key lies in the cache, counted in heads; -1 where the row does not see it.
__device__ void find_rows(const AttentionShape& shape, const DecodeTables& tables, const Place& place,
                          std::int64_t index, std::int64_t first_key, std::int64_t* rows) {
  const int at = static_cast<int>(threadIdx.x);
  if (at >= part_keys) return;
  const std::int64_t key = first_key + at;
  rows[at] = -1;
  if (key < place.least || key > place.position) return;
  const auto tokens = static_cast<unsigned>(tables.block_tokens), number = static_cast<unsigned>(key);
  const std::int64_t block = tables.blocks[index * tables.most_blocks + number / tokens];
  rows[at] = (block * tables.block_tokens + number % tokens) * shape.kv_heads;
}

// Keys and values of a thread, all on their way before any is waited for. Zeros where the row does not see a key.
template <class T, class Share, int width>
struct OwnRows {
  Eight<T> keys[Share::passes] = {};
  Eight<T> values[Share::passes] = {};

  __device__ OwnRows(const AttentionShape& shape, const DecodeTables& tables, const std::int64_t* rows,
                     std::int64_t kv_head) {
    const int lane = static_cast<int>(threadIdx.x) % width, first = static_cast<int>(threadIdx.x) / width;
    if (lane * eight >= shape.head_size) return;
#pragma unroll
    for (int pass = 0; pass < Share::passes; ++pass) {
      const std::int64_t row = rows[first + pass * Share::at_once];
      if (row < 0) continue;
      const std::int64_t from = (row + kv_head) * shape.head_size + lane * eight;
      keys[pass] = *reinterpret_cast<const Eight<T>*>(static_cast<const T*>(tables.keys) + from);
      values[pass] = *reinterpret_cast<const Eight<T>*>(static_cast<const T*>(tables.values) + from);
    }
  }
};

// scores[part_keys, heads]: queries · keys; -infinity where a key is not seen. queries: of the first head.
template <class T, int group, int width, class Share>
__device__ void score_keys(const OwnRows<T, Share, width>& own, const std::int64_t* rows, const T* queries, int count,
                           float scale, int size, float* scores) {
  const int lane = static_cast<int>(threadIdx.x) % width, first = static_cast<int>(threadIdx.x) / width;
  float query[group][eight];
#pragma unroll
  for (int head = 0; head < group; ++head) {
    Eight<T> pack = {};
    if (head < count && lane * eight < size)
      pack = *reinterpret_cast<const Eight<T>*>(queries + head * size + lane * eight);
#pragma unroll
    for (int i = 0; i < eight; ++i) query[head][i] = pack[i] * scale;
  }
#pragma unroll
  for (int pass = 0; pass < Share::passes; ++pass) {
    float sums[Share::heads] = {};
#pragma unroll
    for (int i = 0; i < eight; ++i) {
      const float key = own.keys[pass][i];
#pragma unroll
      for (int head = 0; head < group; ++head) sums[head] = __fmaf_rn(query[head][i], key, sums[head]);
    }
    const float score = spread_sums<width>(sums);
    constexpr int lanes_of_head = width / Share::heads;
    const int key = first + pass * Share::at_once;
    if (lane % lanes_of_head == 0)
      scores[key * Share::heads + lane / lanes_of_head] = rows[key] >= 0 ? score : -INFINITY;
  }
}

// For each head, over the parts so far.
template <int group>
struct Running {
  float highest[group];
  float total[group];   // of the weights
  float shrink[group];  // what the weights of parts before are to be multiplied by
};

// A warp for each head: scores become weights.
template <int group, int heads>
__device__ void weigh_keys(float* scores, Running<group>& running) {
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  for (int head = static_cast<int>(threadIdx.x) / lanes; head < group; head += threads / lanes) {
    const float before = running.highest[head], weighed = running.total[head];
    float own[part_keys / lanes], most = before, sum = 0;
#pragma unroll
    for (int i = 0; i < part_keys / lanes; ++i) {
      own[i] = scores[(lane + i * lanes) * heads + head];
      most = fmaxf(most, own[i]);
    }
    most = warp_max(most);
    const bool none = most == -INFINITY;  // a part of which the row sees nothing
#pragma unroll
    for (int i = 0; i < part_keys / lanes; ++i) {
      own[i] = none ? 0.0f : expf(own[i] - most);
      sum += own[i];
      scores[(lane + i * lanes) * heads + head] = own[i];
    }
    sum = warp_sum(sum);
    const float shrink = none ? 1.0f : expf(before - most);
    if (lane == 0)
      running.highest[head] = most, running.total[head] = __fmaf_rn(weighed, shrink, sum),
      running.shrink[head] = shrink;
  }
}

// Each thread adds up its own keys' values.
template <class T, int group, int width, class Share>
__device__ void weigh_values(const OwnRows<T, Share, width>& own, const float* weights, const float* shrink,
                             Floats (&added)[group]) {
  const int first = static_cast<int>(threadIdx.x) / width;
#pragma unroll
  for (int head = 0; head < group; ++head)
#pragma unroll
    for (int i = 0; i < eight; ++i) added[head].values[i] *= shrink[head];
#pragma unroll
  for (int pass = 0; pass < Share::passes; ++pass) {
    const auto row =
        *reinterpret_cast<const Pack<float, Share::heads>*>(weights + (first + pass * Share::at_once) * Share::heads);
#pragma unroll
    for (int i = 0; i < eight; ++i) {
      const float value = own.values[pass][i];
#pragma unroll
      for (int head = 0; head < group; ++head)
        added[head].values[i] = __fmaf_rn(row.values[head], value, added[head].values[i]);
    }
  }
}

// What is on its way is kept as it came until it is used: registers for two or three blocks of threads on a
// multiprocessor.
constexpr int resident(int width) { return width <= 8 ? 3 : 2; }

template <class T, int group, int width>
__global__ void __launch_bounds__(threads, resident(width))
    decode(AttentionShape shape, DecodeTables tables, const T* queries, int stretch_keys, float* scratch,
           unsigned* counters, int group_blocks, T* output) {
  using Share = Sharing<group, width>;
  extern __shared__ __align__(32) float sums[];  // [at_once, group, size]
  __shared__ alignas(32) float scores[part_keys * Share::heads];
  __shared__ std::int64_t rows[part_keys];
  __shared__ Running<group> running;
  wait_for_those_before();
  const Stretch stretch = own_stretch(shape, tables, stretch_keys, group, group_blocks);
  const Place& place = stretch.place;
  if (!stretch.is_seen()) return;
  const int size = static_cast<int>(shape.head_size), thread = static_cast<int>(threadIdx.x);
  if (thread < group) running.highest[thread] = -INFINITY, running.total[thread] = 0;
  Floats added[group] = {};
  const std::int64_t begin = static_cast<std::int64_t>(stretch.number) * stretch_keys;
  const std::int64_t first_key = begin > place.least ? begin : place.least / part_keys * part_keys;
  const std::int64_t end = min(begin + stretch_keys, place.position + 1);
#pragma unroll 1
  for (std::int64_t key = first_key; key < end; key += part_keys) {
    find_rows(shape, tables, place, stretch.index, key, rows);
    __syncthreads();
    const OwnRows<T, Share, width> own(shape, tables, rows, stretch.kv_head);
    score_keys<T, group>(own, rows, queries + stretch.of_row, stretch.heads, shape.scale, size, scores);
    __syncthreads();
    weigh_keys<group, Share::heads>(scores, running);
    __syncthreads();
    weigh_values<T, group>(own, scores, running.shrink, added);
  }
  const int element = thread % width * eight;
  if (element < size)
#pragma unroll
    for (int head = 0; head < group; ++head)
      *reinterpret_cast<Floats*>(sums + (thread / width * group + head) * size + element) = added[head];
  hand_over<T, group, width, Share::at_once>(shape, stretch, sums, running.highest, running.total, scratch, counters,
                                             output);
}

std::int64_t group_of(const AttentionShape& shape) {
  const std::int64_t all = shape.heads / shape.kv_heads;
  return all < most_group ? all : most_group;
}
std::int64_t group_blocks_of(const AttentionShape& shape) {
  const std::int64_t all = shape.heads / shape.kv_heads, group = group_of(shape);
  return (all + group - 1) / group;
}

// Into how many stretches the longest sequence is cut, and of how many keys: as many blocks of threads as keep the chip
// busy, and no more, since joining costs.
struct Cut {
  std::int64_t stretches = 1;
  std::int64_t keys = part_keys;
};

Cut cut_of(const AttentionShape& shape, const DecodeTables& tables) {
  constexpr std::int64_t enough_blocks = 264;  // two for each of 132 multiprocessors
  const std::int64_t parts = (tables.most_blocks * tables.block_tokens + part_keys - 1) / part_keys;
  const std::int64_t rows = tables.count * shape.kv_heads * group_blocks_of(shape);
  const std::int64_t wanted = (enough_blocks + rows - 1) / rows;
  const std::int64_t parts_each = (parts + wanted - 1) / wanted;
  return {(parts + parts_each - 1) / parts_each, parts_each * part_keys};
}

}  // namespace

std::int64_t decode_scratch(const AttentionShape& shape, const DecodeTables& tables) {
  return tables.count * shape.heads * cut_of(shape, tables).stretches * partial_size(shape);
}

std::int64_t decode_counters(const AttentionShape& shape, const DecodeTables& tables) {
  return tables.count * shape.kv_heads * group_blocks_of(shape);
}

LaunchError decode_attention(Stream stream, Scalar scalar, const AttentionShape& shape, const DecodeTables& tables,
                             const void* queries, float* scratch, unsigned* counters, void* output) {
  if (tables.count == 0) return "";
  const int group_blocks = static_cast<int>(group_blocks_of(shape));
  const Cut cut = cut_of(shape, tables);
  const dim3 grid(static_cast<unsigned>(cut.stretches), static_cast<unsigned>(shape.kv_heads * group_blocks),
                  static_cast<unsigned>(tables.count));
  return dispatch(scalar, [&](auto element) {
    using T = decltype(element);
    const auto launch_width = [&](auto group, auto width) {
      constexpr int heads = decltype(group)::value, lanes_of_key = decltype(width)::value;
      const auto bytes =
          static_cast<std::size_t>(Sharing<heads, lanes_of_key>::at_once * heads * shape.head_size) * sizeof(float);
      launch_overlapping(decode<T, heads, lanes_of_key>, grid, threads, bytes, static_cast<cudaStream_t>(stream), shape,
                         tables, static_cast<const T*>(queries), static_cast<int>(cut.keys), scratch, counters,
                         group_blocks, static_cast<T*>(output));
    };
    if constexpr (!std::is_same_v<T, float>) {
      const auto by_cores = [&](auto kernel) {
        launch_overlapping(kernel, grid, threads, 0, static_cast<cudaStream_t>(stream), shape, tables,
                           static_cast<const T*>(queries), static_cast<int>(cut.keys), scratch, counters, group_blocks,
                           static_cast<T*>(output));
      };
      if (shape.head_size == 64) return by_cores(decode_by_cores<T, 64>);
      if (shape.head_size == 128) return by_cores(decode_by_cores<T, 128>);
    }
    const auto launch = [&](auto group) {
      if (shape.head_size <= 64)
        launch_width(group, std::integral_constant<int, 8>());
      else if (shape.head_size <= 128)
        launch_width(group, std::integral_constant<int, 16>());
      else
        launch_width(group, std::integral_constant<int, 32>());
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
