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
constexpr int eight = 8;       // elements of a head that a thread has

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

// Sums each value over `width` neighbouring lanes. Lane i has the total of value i / (width / count) then: half of the
// values change hands in each step, instead of all of them.
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
  static constexpr int heads = power_of_two_from(group);  // weights lie in rows of so many
};

// Keys and values of a thread, all on their way before any is waited for. Zeros where the row does not see a key.
template <class T, class Share, int width>
struct OwnRows {
  Eight<T> keys[Share::passes] = {};
  Eight<T> values[Share::passes] = {};
  unsigned seen = 0;  // a bit for each

  __device__ OwnRows(const AttentionShape& shape, const DecodeTables& tables, const Place& place, std::int64_t index,
                     std::int64_t part, std::int64_t kv_head) {
    const int lane = static_cast<int>(threadIdx.x) % width, first = static_cast<int>(threadIdx.x) / width;
    const std::int64_t least =
        shape.window > 0 && place.position >= shape.window ? place.position - shape.window + 1 : 0;
    const auto tokens = static_cast<unsigned>(tables.block_tokens);
    const bool has_elements = lane * eight < shape.head_size;
#pragma unroll
    for (int pass = 0; pass < Share::passes; ++pass) {
      const std::int64_t key = part * part_keys + first + pass * Share::at_once;
      if (key < least || key > place.position) continue;
      seen |= 1u << pass;
      if (!has_elements) continue;
      const auto number = static_cast<unsigned>(key);
      const std::int64_t block = tables.blocks[index * tables.most_blocks + number / tokens];
      const std::int64_t row = (block * tables.block_tokens + number % tokens) * shape.kv_heads + kv_head;
      const std::int64_t from = row * shape.head_size + lane * eight;
      keys[pass] = *reinterpret_cast<const Eight<T>*>(static_cast<const T*>(tables.keys) + from);
      values[pass] = *reinterpret_cast<const Eight<T>*>(static_cast<const T*>(tables.values) + from);
    }
  }
};

// scores[part_keys, heads]: queries · keys; -infinity where a key is not seen. queries: of the first head.
template <class T, int group, int width, class Share>
__device__ void score_keys(const OwnRows<T, Share, width>& own, const T* queries, int count, float scale, int size,
                           float* scores) {
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
    if (lane % lanes_of_head == 0)
      scores[(first + pass * Share::at_once) * Share::heads + lane / lanes_of_head] =
          (own.seen >> pass & 1) != 0 ? score : -INFINITY;
  }
}

// A warp for each head: scores become weights.
template <int group, int heads>
__device__ void weigh_keys(float* scores, float* highest, float* total) {
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  for (int head = static_cast<int>(threadIdx.x) / lanes; head < group; head += threads / lanes) {
    float own[part_keys / lanes], most = -INFINITY, sum = 0;
#pragma unroll
    for (int i = 0; i < part_keys / lanes; ++i) {
      own[i] = scores[(lane + i * lanes) * heads + head];
      most = fmaxf(most, own[i]);
    }
    most = warp_max(most);
#pragma unroll
    for (int i = 0; i < part_keys / lanes; ++i) {
      own[i] = expf(own[i] - most);
      sum += own[i];
      scores[(lane + i * lanes) * heads + head] = own[i];
    }
    sum = warp_sum(sum);
    if (lane == 0) highest[head] = most, total[head] = sum;
  }
}

// sums[at_once, group, size]: each thread adds up its own keys' values.
template <class T, int group, int width, class Share>
__device__ void weigh_values(const OwnRows<T, Share, width>& own, const float* weights, int size, float* sums) {
  const int lane = static_cast<int>(threadIdx.x) % width, first = static_cast<int>(threadIdx.x) / width;
  float added[group][eight] = {};
#pragma unroll
  for (int pass = 0; pass < Share::passes; ++pass) {
    const auto row =
        *reinterpret_cast<const Pack<float, Share::heads>*>(weights + (first + pass * Share::at_once) * Share::heads);
#pragma unroll
    for (int i = 0; i < eight; ++i) {
      const float value = own.values[pass][i];
#pragma unroll
      for (int head = 0; head < group; ++head) added[head][i] = __fmaf_rn(row.values[head], value, added[head][i]);
    }
  }
  if (lane * eight >= size) return;
#pragma unroll
  for (int head = 0; head < group; ++head)
#pragma unroll
    for (int i = 0; i < eight; ++i) sums[(first * group + head) * size + lane * eight + i] = added[head][i];
}

// What the parts found, each weighed, summed in order. Read past the nearest cache, which may hold a line from before
// another block of threads wrote into it. memory: room for as many numbers, which nobody else uses now.
template <class T, int group, int width>
__device__ void join_parts(const AttentionShape& shape, std::int64_t parts, float* scratch, std::int64_t index,
                           const Place& place, std::int64_t first_head, int count, float* memory, int room, T* output) {
  __shared__ float highest[group], total[group];
  const int size = static_cast<int>(shape.head_size), thread = static_cast<int>(threadIdx.x), lane = thread % lanes;
  const int all = static_cast<int>(place.last_part - place.first_part) + 1;
  const std::int64_t stride = shape.head_size + 2;
  const auto partial = [&](int head) {
    return partial_of(shape, parts, scratch, index, first_head + head, place.first_part);
  };
  for (int head = thread / lanes; head < count; head += threads / lanes) {
    const float* own = partial(head);
    float most = -INFINITY, sum = 0;
    for (int part = lane; part < all; part += lanes) most = fmaxf(most, __ldcg(own + part * stride));
    most = warp_max(most);
    for (int part = lane; part < all; part += lanes)
      sum = __fmaf_rn(__ldcg(own + part * stride + 1), expf(__ldcg(own + part * stride) - most), sum);
    sum = warp_sum(sum);
    if (lane == 0) highest[head] = most, total[head] = sum;
  }
  __syncthreads();
  constexpr int each = (group * width * eight + threads - 1) / threads;  // elements of a thread
  const float* from[each];
  float sums[each] = {};
#pragma unroll
  for (int i = 0; i < each; ++i)
    if (const int at = thread + i * threads; at < count * size) from[i] = partial(at / size) + 2 + at % size;
  for (int begin = 0; begin < all; begin += room / group) {
    const int some = min(room / group, all - begin);
    for (int at = thread; at < count * some; at += threads) {
      const int head = at / some, part = begin + at % some;
      memory[at] = expf(__ldcg(partial(head) + part * stride) - highest[head]) / total[head];
    }
    __syncthreads();
#pragma unroll 4
    for (int part = 0; part < some; ++part)
#pragma unroll
      for (int i = 0; i < each; ++i)
        if (const int at = thread + i * threads; at < count * size)
          sums[i] = __fmaf_rn(memory[at / size * some + part], __ldcg(from[i] + (begin + part) * stride), sums[i]);
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < each; ++i)
    if (const int at = thread + i * threads; at < count * size)
      output[(place.row * shape.heads + first_head) * size + at] = narrow<T>(sums[i]);
}

// What is on its way is kept as it came until it is used: registers for three blocks of threads on a multiprocessor.
constexpr int resident(int width) { return width <= 8 ? 4 : width <= 16 ? 3 : 2; }

template <class T, int group, int width>
__global__ void __launch_bounds__(threads, resident(width))
    decode(AttentionShape shape, DecodeTables tables, const T* queries, float* scratch, unsigned* counters,
           int group_blocks, T* output) {
  using Share = Sharing<group, width>;
  extern __shared__ float sums[];
  __shared__ alignas(32) float scores[part_keys * Share::heads];
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
  const int count = static_cast<int>(left < group ? left : group);
  const OwnRows<T, Share, width> own(shape, tables, place, index, part, kv_head);
  score_keys<T, group>(own, queries + (place.row * shape.heads + first_head) * size, count, shape.scale, size, scores);
  __syncthreads();
  weigh_keys<group, Share::heads>(scores, highest, total);
  __syncthreads();
  weigh_values<T, group>(own, scores, size, sums);
  __syncthreads();

  const bool alone = place.first_part == place.last_part;
  for (int at = thread; at < count * size; at += threads) {
    const int head = at / size, element = at % size;
    float sum = 0;
#pragma unroll
    for (int slice = 0; slice < Share::at_once; ++slice) sum += sums[(slice * group + head) * size + element];
    if (alone)
      output[(place.row * shape.heads + first_head) * size + at] = narrow<T>(sum / total[head]);
    else
      partial_of(shape, parts, scratch, index, first_head + head, part)[2 + element] = sum;
  }
  if (alone) return;
  if (thread < count) {
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
  join_parts<T, group, width>(shape, parts, scratch, index, place, first_head, count, sums,
                              Share::at_once * group * size, output);
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
    const auto launch_width = [&](auto group, auto width) {
      constexpr int heads = decltype(group)::value, lanes_of_key = decltype(width)::value;
      const auto bytes =
          static_cast<std::size_t>(Sharing<heads, lanes_of_key>::at_once * heads * shape.head_size) * sizeof(float);
      decode<T, heads, lanes_of_key><<<grid, threads, bytes, static_cast<cudaStream_t>(stream)>>>(
          shape, tables, static_cast<const T*>(queries), scratch, counters, group_blocks, static_cast<T*>(output));
    };
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
