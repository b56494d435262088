// Joined rows of queries, keys and values: split, normed, rotated and put where attention finds them; and the gradients
// of that, joined again.
#include <initializer_list>

#include "cuda/dispatch.cuh"
#include "cuda/training_kernels.hpp"
#include "cuda/dependent_launch.cuh"
#include "cuda/pack.cuh"
#include "cuda/warp.cuh"

namespace muster::cuda {
namespace {

constexpr int warps = 4;
constexpr int most_pairs = 256 / 2 / lanes;  // of a lane

template <class T>
__device__ float rounded(float value) {
  return widen(narrow<T>(value));
}

// A lane's pairs (i, i + head_size / 2) of one head.
struct Pairs {
  float first[most_pairs];
  float second[most_pairs];
};

template <class T>
__device__ void norm(Pairs& pairs, const T* weight, float epsilon, int half, int lane) {
  float squares = 0;
  for (int i = 0; i < most_pairs; ++i)
    squares = __fmaf_rn(pairs.second[i], pairs.second[i], __fmaf_rn(pairs.first[i], pairs.first[i], squares));
  const float scale = rsqrtf(warp_sum(squares) / static_cast<float>(2 * half) + epsilon);
  for (int i = 0; i < most_pairs; ++i) {
    const int element = lane + i * lanes;
    if (element >= half) break;
    pairs.first[i] = rounded<T>(rounded<T>(pairs.first[i] * scale) * widen(weight[element]));
    pairs.second[i] = rounded<T>(rounded<T>(pairs.second[i] * scale) * widen(weight[element + half]));
  }
}

template <class T>
__device__ void turn(Pairs& pairs, const float* cosines, const float* sines, int half, int lane) {
  for (int i = 0; i < most_pairs; ++i) {
    const int element = lane + i * lanes;
    if (element >= half) break;
    const float cosine = rounded<T>(cosines[element]), sine = rounded<T>(sines[element]);
    const float first = pairs.first[i], second = pairs.second[i];
    pairs.first[i] = rounded<T>(first * cosine) - rounded<T>(second * sine);
    pairs.second[i] = rounded<T>(second * cosine) + rounded<T>(first * sine);
  }
}

template <class T>
__device__ void put(const Pairs& pairs, int half, int lane, T* to) {
  for (int i = 0; i < most_pairs; ++i) {
    const int element = lane + i * lanes;
    if (element >= half) break;
    to[element] = narrow<T>(pairs.first[i]);
    to[element + half] = narrow<T>(pairs.second[i]);
  }
}

// One warp a head.
template <class T>
__global__ void __launch_bounds__(lanes* warps) split(AttentionShape shape, HeadSplit parts, std::int64_t tasks) {
  let_the_next_begin();
  wait_for_those_before();
  const std::int64_t task = static_cast<std::int64_t>(blockIdx.x) * warps + threadIdx.x / lanes;
  if (task >= tasks) return;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const std::int64_t total = shape.heads + 2 * shape.kv_heads, size = shape.head_size;
  const std::int64_t row = task / total, head = task % total;
  const int half = static_cast<int>(size / 2);
  const T* from = static_cast<const T*>(parts.joined) + task * size;
  Pairs pairs;
  for (int i = 0; i < most_pairs; ++i) {
    const int element = lane + i * lanes;
    pairs.first[i] = element < half ? widen(from[element]) : 0.0f;
    pairs.second[i] = element < half ? widen(from[element + half]) : 0.0f;
  }
  const bool is_query = head < shape.heads, is_value = head >= shape.heads + shape.kv_heads;
  if (!is_value) {
    const void* weight = is_query ? parts.query_norm : parts.key_norm;
    if (weight != nullptr) norm<T>(pairs, static_cast<const T*>(weight), parts.epsilon, half, lane);
    if (parts.cosines != nullptr) turn<T>(pairs, parts.cosines + row * half, parts.sines + row * half, half, lane);
  }
  if (is_query) {
    put(pairs, half, lane, static_cast<T*>(parts.queries) + (row * shape.heads + head) * size);
    return;
  }
  const std::int64_t own = head - shape.heads - (is_value ? shape.kv_heads : 0);
  void* rows = is_value ? parts.values : parts.keys;
  void* cached = is_value ? parts.cached_values : parts.cached_keys;
  put(pairs, half, lane, static_cast<T*>(rows) + (row * shape.kv_heads + own) * size);
  if (cached != nullptr)
    put(pairs, half, lane, static_cast<T*>(cached) + (parts.slots[row] * shape.kv_heads + own) * size);
}

constexpr int eight = 8;
constexpr unsigned pack_threads = 256;

// Eight pairs of one head.
template <class T>
struct PairPacks {
  Pack<T, eight> first;
  Pack<T, eight> second;

  __device__ static PairPacks read(const T* half, unsigned width) {
    return {*reinterpret_cast<const Pack<T, eight>*>(half), *reinterpret_cast<const Pack<T, eight>*>(half + width)};
  }
  __device__ void write(T* half, unsigned width) const {
    *reinterpret_cast<Pack<T, eight>*>(half) = first;
    *reinterpret_cast<Pack<T, eight>*>(half + width) = second;
  }

  // lanes_of_head: neighbours, a power of two, which have the head's other pairs.
  __device__ void norm(const T* weight, float epsilon, unsigned half, unsigned lanes_of_head) {
    const unsigned lane = threadIdx.x % lanes;
    const unsigned group = (lanes_of_head == lanes ? whole_warp : (1u << lanes_of_head) - 1)
                           << (lane / lanes_of_head * lanes_of_head);
    float squares = 0;
#pragma unroll
    for (int i = 0; i < eight; ++i) {
      const float a = widen(first.values[i]), b = widen(second.values[i]);
      squares = __fmaf_rn(b, b, __fmaf_rn(a, a, squares));
    }
    for (unsigned offset = lanes_of_head / 2; offset > 0; offset /= 2)
      squares += __shfl_xor_sync(group, squares, static_cast<int>(offset));
    const float scale = rsqrtf(squares / static_cast<float>(2 * half) + epsilon);
    const PairPacks weights = read(weight, half);
#pragma unroll
    for (int i = 0; i < eight; ++i) {
      first.values[i] = narrow<T>(rounded<T>(widen(first.values[i]) * scale) * widen(weights.first.values[i]));
      second.values[i] = narrow<T>(rounded<T>(widen(second.values[i]) * scale) * widen(weights.second.values[i]));
    }
  }

  // direction: 1, or -1 to turn back.
  __device__ void turn(const float* cosines, const float* sines, float direction) {
    const auto cosine = *reinterpret_cast<const Pack<float, eight / 2>(*)[2]>(cosines);
    const auto sine = *reinterpret_cast<const Pack<float, eight / 2>(*)[2]>(sines);
#pragma unroll
    for (int i = 0; i < eight; ++i) {
      const float c = rounded<T>(cosine[i / 4].values[i % 4]), s = direction * rounded<T>(sine[i / 4].values[i % 4]);
      const float a = widen(first.values[i]), b = widen(second.values[i]);
      first.values[i] = narrow<T>(rounded<T>(a * c) - rounded<T>(b * s));
      second.values[i] = narrow<T>(rounded<T>(b * c) + rounded<T>(a * s));
    }
  }
};

// Which pairs a thread has.
struct PairPlace {
  unsigned row, head, place;  // place: of the pairs, within half a head

  __device__ PairPlace(const AttentionShape& shape, unsigned index) {
    const auto of_head = static_cast<unsigned>(shape.head_size) / 2 / eight;
    const auto total = static_cast<unsigned>(shape.heads + 2 * shape.kv_heads);
    place = index % of_head * eight;
    row = index / of_head / total;
    head = index / of_head % total;
  }
};

template <class T>
__global__ void __launch_bounds__(pack_threads) split_packs(AttentionShape shape, HeadSplit parts, unsigned tasks) {
  let_the_next_begin();
  wait_for_those_before();
  const unsigned index = blockIdx.x * pack_threads + threadIdx.x;
  if (index >= tasks) return;
  const PairPlace at(shape, index);
  const auto size = static_cast<unsigned>(shape.head_size), half = size / 2;
  const auto heads = static_cast<unsigned>(shape.heads), kv_heads = static_cast<unsigned>(shape.kv_heads);
  const std::int64_t joined = static_cast<std::int64_t>(at.row) * (heads + 2 * kv_heads) + at.head;
  auto pairs = PairPacks<T>::read(static_cast<const T*>(parts.joined) + joined * size + at.place, half);
  const bool is_query = at.head < heads, is_value = at.head >= heads + kv_heads;
  if (!is_value) {
    const void* weight = is_query ? parts.query_norm : parts.key_norm;
    if (weight != nullptr) pairs.norm(static_cast<const T*>(weight) + at.place, parts.epsilon, half, half / eight);
    const std::int64_t angle = static_cast<std::int64_t>(at.row) * half + at.place;
    if (parts.cosines != nullptr) pairs.turn(parts.cosines + angle, parts.sines + angle, 1);
  }
  const auto put = [&](void* rows, std::int64_t row, unsigned width, unsigned head) {
    pairs.write(static_cast<T*>(rows) + (row * width + head) * size + at.place, half);
  };
  if (is_query) return put(parts.queries, at.row, heads, at.head);
  const unsigned own = at.head - heads - (is_value ? kv_heads : 0);
  put(is_value ? parts.values : parts.keys, at.row, kv_heads, own);
  if (void* cached = is_value ? parts.cached_values : parts.cached_keys; cached != nullptr)
    put(cached, parts.slots[at.row], kv_heads, own);
}

template <class T>
__global__ void __launch_bounds__(pack_threads)
    join_packs(AttentionShape shape, HeadGradients from, unsigned tasks, T* joined) {
  const unsigned index = blockIdx.x * pack_threads + threadIdx.x;
  if (index >= tasks) return;
  const PairPlace at(shape, index);
  const auto size = static_cast<unsigned>(shape.head_size), half = size / 2;
  const auto heads = static_cast<unsigned>(shape.heads), kv_heads = static_cast<unsigned>(shape.kv_heads);
  const bool is_query = at.head < heads, is_value = at.head >= heads + kv_heads;
  const auto* rows = static_cast<const T*>(is_query ? from.queries : is_value ? from.values : from.keys);
  const unsigned own = is_query ? at.head : at.head - heads - (is_value ? kv_heads : 0);
  const std::int64_t head = static_cast<std::int64_t>(at.row) * (is_query ? heads : kv_heads) + own;
  auto pairs = PairPacks<T>::read(rows + head * size + at.place, half);
  const std::int64_t angle = static_cast<std::int64_t>(at.row) * half + at.place;
  if (!is_value) pairs.turn(from.cosines + angle, from.sines + angle, -1);
  const std::int64_t place = static_cast<std::int64_t>(at.row) * (heads + 2 * kv_heads) + at.head;
  pairs.write(joined + place * size + at.place, half);
}

// Whether heads are made of whole packs; norms also want a power of two of them.
template <class T>
bool takes_packs(const AttentionShape& shape, std::int64_t rows, bool norms) {
  const std::int64_t of_half = shape.head_size / 2 / eight;
  return sizeof(Pack<T, eight>) == 16 && shape.head_size % (2 * eight) == 0 && of_half <= lanes &&
         rows * (shape.heads + 2 * shape.kv_heads) * of_half < INT32_MAX / 2 &&
         (!norms || (of_half & (of_half - 1)) == 0);
}

bool are_aligned(std::initializer_list<const void*> pointers) {
  for (const void* pointer : pointers)
    if (!is_aligned(pointer)) return false;
  return true;
}

unsigned pack_tasks(const AttentionShape& shape, std::int64_t rows) {
  return static_cast<unsigned>(rows * (shape.heads + 2 * shape.kv_heads) * (shape.head_size / 2 / eight));
}

unsigned pack_blocks(unsigned tasks) { return (tasks + pack_threads - 1) / pack_threads; }

}  // namespace

LaunchError split_heads(Stream stream, Scalar scalar, const AttentionShape& shape, const HeadSplit& parts,
                        std::int64_t rows) {
  if (rows == 0) return "";
  const bool norms = parts.query_norm != nullptr || parts.key_norm != nullptr;
  const bool aligned = are_aligned({parts.joined, parts.query_norm, parts.key_norm, parts.cosines, parts.sines,
                                    parts.queries, parts.keys, parts.values, parts.cached_keys, parts.cached_values});
  return dispatch(scalar, [&](auto element) {
    using T = decltype(element);
    const auto on = static_cast<cudaStream_t>(stream);
    if (aligned && takes_packs<T>(shape, rows, norms)) {
      const unsigned tasks = pack_tasks(shape, rows);
      launch_overlapping(split_packs<T>, pack_blocks(tasks), pack_threads, 0, on, shape, parts, tasks);
      return;
    }
    const std::int64_t tasks = rows * (shape.heads + 2 * shape.kv_heads);
    launch_overlapping(split<T>, static_cast<unsigned>((tasks + warps - 1) / warps), lanes * warps, 0, on, shape, parts,
                       tasks);
  });
}

bool has_joined_gradients(Scalar scalar, const AttentionShape& shape, std::int64_t rows) {
  return scalar != Scalar::float32 && takes_packs<__half>(shape, rows, false);
}

LaunchError join_gradients(Stream stream, Scalar scalar, const AttentionShape& shape, const HeadGradients& from,
                           std::int64_t rows, void* joined) {
  if (rows == 0) return "";
  return dispatch(scalar, [&](auto element) {
    using T = decltype(element);
    const unsigned tasks = pack_tasks(shape, rows);
    join_packs<T><<<pack_blocks(tasks), pack_threads, 0, static_cast<cudaStream_t>(stream)>>>(shape, from, tasks,
                                                                                              static_cast<T*>(joined));
  });
}

}  // namespace muster::cuda
