// Attention with a fixed order of keys.
#include "cuda/dispatch.cuh"
#include "cuda/warp.cuh"

namespace muster::cuda {
namespace {

constexpr int warps = 4;
constexpr int chunk = 64;  // keys whose weights are made together
constexpr int most_per_lane = 256 / lanes;

template <class T>
__global__ void __launch_bounds__(lanes* warps) attend(AttentionShape shape, AttentionTables tables, const T* queries,
                                                       std::int64_t rows, T* output, float* log_sums) {
  const std::int64_t task = static_cast<std::int64_t>(blockIdx.x) * warps + threadIdx.x / lanes;
  if (task >= rows * shape.heads) return;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const std::int64_t row = task / shape.heads, head = task % shape.heads, size = shape.head_size;
  const std::int64_t kv_head = head / (shape.heads / shape.kv_heads);
  const std::int64_t sequence = tables.row_sequence[row], position = tables.row_position[row];
  const T* keys = static_cast<const T*>(tables.sequence_keys[sequence]);
  const T* values = static_cast<const T*>(tables.sequence_values[sequence]);
  const std::int64_t* table = tables.block_table + tables.sequence_table[sequence];
  const std::int64_t block_tokens = tables.sequence_block_tokens[sequence];
  const auto place = [&](std::int64_t key) {
    return ((table[key / block_tokens] * block_tokens + key % block_tokens) * shape.kv_heads + kv_head) * size;
  };

  float query[most_per_lane], sum[most_per_lane];
  for (int i = 0; i < most_per_lane; ++i) {
    const std::int64_t element = lane + i * lanes;
    query[i] = element < size ? widen(queries[(row * shape.heads + head) * size + element]) * shape.scale : 0.0f;
    sum[i] = 0;
  }
  const std::int64_t first = shape.window > 0 && position >= shape.window ? position - shape.window + 1 : 0;
  float highest = -INFINITY, total = 0;
  for (std::int64_t begin = first / chunk * chunk; begin <= position; begin += chunk) {
    float scores[chunk / lanes];
    for (int key = 0; key < chunk; ++key) {
      float score = -INFINITY;
      if (begin + key >= first && begin + key <= position) {
        const T* at = keys + place(begin + key);
        float part = 0;
        for (int i = 0; i < most_per_lane; ++i) {
          const std::int64_t element = lane + i * lanes;
          if (element < size) part = __fmaf_rn(query[i], widen(at[element]), part);
        }
        score = warp_sum(part);
      }
      if (key % lanes == lane) scores[key / lanes] = score;
    }
    const float raised = fmaxf(highest, warp_max(fmaxf(scores[0], scores[1])));
    const float shrink = expf(highest - raised);
    highest = raised;
    for (float& score : scores) score = expf(score - highest);
    total = __fmaf_rn(total, shrink, warp_sum(scores[0] + scores[1]));
    for (float& part : sum) part *= shrink;
    for (int key = 0; key < chunk; ++key) {
      if (begin + key < first || begin + key > position) continue;
      const float weight = __shfl_sync(whole_warp, scores[key / lanes], key % lanes);
      const T* at = values + place(begin + key);
      for (int i = 0; i < most_per_lane; ++i) {
        const std::int64_t element = lane + i * lanes;
        if (element < size) sum[i] = __fmaf_rn(weight, widen(at[element]), sum[i]);
      }
    }
  }
  if (log_sums != nullptr && lane == 0) log_sums[head * rows + row] = highest + logf(total);
  for (int i = 0; i < most_per_lane; ++i) {
    const std::int64_t element = lane + i * lanes;
    if (element < size) output[(row * shape.heads + head) * size + element] = narrow<T>(sum[i] / total);
  }
}

}  // namespace

LaunchError attention(Stream stream, Scalar scalar, const AttentionShape& shape, const AttentionTables& tables,
                      const void* queries, std::int64_t rows, void* output, float* log_sums) {
  if (rows == 0) return "";
  const std::int64_t tasks = rows * shape.heads;
  const auto blocks = static_cast<unsigned>((tasks + warps - 1) / warps);
  return dispatch(scalar, [&](auto element) {
    using T = decltype(element);
    attend<T><<<blocks, lanes * warps, 0, static_cast<cudaStream_t>(stream)>>>(
        shape, tables, static_cast<const T*>(queries), rows, static_cast<T*>(output), log_sums);
  });
}

}  // namespace muster::cuda
