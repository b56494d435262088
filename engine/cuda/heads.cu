// Joined rows of queries, keys and values: split, normed, turned, and put where attention finds them. One warp a head.
#include "cuda/dispatch.cuh"
#include "cuda/overlap.cuh"
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

}  // namespace

LaunchError split_heads(Stream stream, Scalar scalar, const AttentionShape& shape, const HeadSplit& parts,
                        std::int64_t rows) {
  if (rows == 0) return "";
  const std::int64_t tasks = rows * (shape.heads + 2 * shape.kv_heads);
  return dispatch(scalar, [&](auto element) {
    using T = decltype(element);
    launch_overlapping(split<T>, static_cast<unsigned>((tasks + warps - 1) / warps), lanes * warps, 0,
                       static_cast<cudaStream_t>(stream), shape, parts, tasks);
  });
}

}  // namespace muster::cuda
