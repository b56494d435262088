// Gradients of norms: blocks of threads walk the rows, and keep sums over rows to themselves until the end.
#include <type_traits>

#include "cuda/dispatch.cuh"
#include "cuda/exact.cuh"
#include "cuda/pack.cuh"
#include "cuda/warp.cuh"

namespace muster::cuda {
namespace {

constexpr int threads = 256;
constexpr std::int64_t most_blocks = 1024;
constexpr int parts_at_once = 32;

std::int64_t blocks_of(std::int64_t rows) { return rows < most_blocks ? rows : most_blocks; }

// What a row's gradient needs of the whole row.
struct RowNumbers {
  float mean = 0;
  float scale = 0;
  float gradient_mean = 0;  // of gradient · weight
  float along = 0;          // mean of gradient · weight · normed
};

template <class T, bool centered>
__device__ RowNumbers row_numbers(const T* input, const T* gradient, const T* weight, std::int64_t width,
                                  float epsilon) {
  RowNumbers row;
  const float share = static_cast<float>(width);
  if constexpr (centered) {
    float sum = 0;
    for (std::int64_t i = threadIdx.x; i < width; i += threads) sum += widen(input[i]);
    row.mean = block_sum<threads>(sum) / share;
  }
  float squares = 0, gradients = 0, products = 0;
  for (std::int64_t i = threadIdx.x; i < width; i += threads) {
    const float apart = widen(input[i]) - row.mean;
    const float weighted = widen(gradient[i]) * widen(weight[i]);
    squares = __fmaf_rn(apart, apart, squares);
    gradients += weighted;
    products = __fmaf_rn(weighted, apart, products);
  }
  row.scale = rsqrtf(block_sum<threads>(squares) / share + epsilon);
  if constexpr (centered) row.gradient_mean = block_sum<threads>(gradients) / share;
  row.along = block_sum<threads>(products) * row.scale / share;
  return row;
}

// A column's sum over the rows of one block.
template <bool exact>
struct Total {
  using Value = float;
  __device__ static void add(float& total, float gradient, float factor, Count&) {
    total = __fmaf_rn(gradient, factor, total);
  }
};
template <>
struct Total<true> {
  using Value = Count;
  __device__ static void add(Count& total, float gradient, float factor, Count& lost) {
    total += exact_term(gradient * factor, lost);
  }
};

__device__ bool wants(const Sum& sum) {
  return sum.values != nullptr || sum.rounded != nullptr || sum.multiples != nullptr;
}

template <class T, bool centered, bool exact>
__global__ void __launch_bounds__(threads) gradient_rows(NormGradient job) {
  using Value = typename Total<exact>::Value;
  extern __shared__ Count memory[];
  Value* const weights = reinterpret_cast<Value*>(memory);  // each thread has its own columns
  Value* const biases = weights + job.width;
  const bool sums_weights = wants(job.weight_sum), sums_biases = centered && wants(job.bias_sum);
  for (std::int64_t i = threadIdx.x; i < job.width; i += threads) {
    weights[i] = 0;
    if constexpr (centered) biases[i] = 0;
  }
  const T* const weight = static_cast<const T*>(job.weight);
  Count weights_lost = 0, biases_lost = 0;
  for (std::int64_t r = blockIdx.x; r < job.rows; r += gridDim.x) {
    const T* const input = static_cast<const T*>(job.input) + r * job.width;
    const T* const gradient = static_cast<const T*>(job.output_gradient) + r * job.width;
    const T* const residual = job.residual == nullptr ? nullptr : static_cast<const T*>(job.residual) + r * job.width;
    T* const output = static_cast<T*>(job.input_gradient) + r * job.width;
    const RowNumbers row = row_numbers<T, centered>(input, gradient, weight, job.width, job.epsilon);
    for (std::int64_t i = threadIdx.x; i < job.width; i += threads) {
      const float from = widen(gradient[i]);
      const float normed = (widen(input[i]) - row.mean) * row.scale;
      const float inner = from * widen(weight[i]) - row.gradient_mean;
      const float found = row.scale * __fmaf_rn(-normed, row.along, inner);
      output[i] = narrow<T>(residual == nullptr ? found : widen(residual[i]) + widen(narrow<T>(found)));
      if (sums_weights) Total<exact>::add(weights[i], from, centered ? normed : widen(narrow<T>(normed)), weights_lost);
      if (sums_biases) Total<exact>::add(biases[i], from, 1.0f, biases_lost);
    }
  }
  for (std::int64_t i = threadIdx.x; i < job.width; i += threads) {
    if constexpr (exact) {
      if (sums_weights) add_whole(job.weight_sum.multiples + i, weights[i]);
      if (sums_biases) add_whole(job.bias_sum.multiples + i, biases[i]);
    } else {
      float* const parts = job.scratch + static_cast<std::int64_t>(blockIdx.x) * 2 * job.width;
      if (sums_weights) parts[i] = weights[i];
      if (sums_biases) parts[job.width + i] = biases[i];
    }
  }
  if constexpr (exact) {
    if (sums_weights) add_whole(job.weight_sum.overflow, weights_lost);
    if (sums_biases) add_whole(job.bias_sum.overflow, biases_lost);
  }
}

constexpr int eight = 8;

// For rms_norm: a row is in the registers of a block, per_thread packs in each thread.
template <class T, bool exact, int per_thread>
__global__ void __launch_bounds__(threads) gradient_packs(NormGradient job, int packs) {
  using Values = Pack<T, eight>;
  __shared__ float2 partial[2][threads / lanes];  // in turn, so that a row's are read before they are written over
  const int warps = static_cast<int>(blockDim.x) / lanes, stride = static_cast<int>(blockDim.x);
  const auto pack_of = [&](int i) { return static_cast<int>(threadIdx.x) + i * stride; };
  Values weight[per_thread];
  typename Total<exact>::Value totals[per_thread][eight] = {};
  Count lost = 0;
#pragma unroll
  for (int i = 0; i < per_thread; ++i)
    if (pack_of(i) < packs) weight[i] = static_cast<const Values*>(job.weight)[pack_of(i)];
  int turn = 0;
  for (std::int64_t r = blockIdx.x; r < job.rows; r += gridDim.x, turn ^= 1) {
    const std::int64_t first = r * packs;
    Values input[per_thread], gradient[per_thread], residual[per_thread];
#pragma unroll
    for (int i = 0; i < per_thread; ++i)
      if (pack_of(i) < packs) {
        input[i] = static_cast<const Values*>(job.input)[first + pack_of(i)];
        gradient[i] = static_cast<const Values*>(job.output_gradient)[first + pack_of(i)];
        if (job.residual != nullptr) residual[i] = static_cast<const Values*>(job.residual)[first + pack_of(i)];
      }
    float squares = 0, products = 0;
#pragma unroll
    for (int i = 0; i < per_thread; ++i)
      if (pack_of(i) < packs)
#pragma unroll
        for (int j = 0; j < eight; ++j) {
          const float value = widen(input[i].values[j]);
          squares = __fmaf_rn(value, value, squares);
          products = __fmaf_rn(widen(gradient[i].values[j]) * widen(weight[i].values[j]), value, products);
        }
    squares = warp_sum(squares);
    products = warp_sum(products);
    if (threadIdx.x % lanes == 0) partial[turn][threadIdx.x / lanes] = make_float2(squares, products);
    __syncthreads();
    float2 both = partial[turn][0];
    for (int i = 1; i < warps; ++i) both.x += partial[turn][i].x, both.y += partial[turn][i].y;
    const float share = static_cast<float>(job.width);
    const float scale = rsqrtf(both.x / share + job.epsilon), along = both.y * scale / share;
#pragma unroll
    for (int i = 0; i < per_thread; ++i) {
      if (pack_of(i) >= packs) continue;
#pragma unroll
      for (int j = 0; j < eight; ++j) {
        const float from = widen(gradient[i].values[j]), normed = widen(input[i].values[j]) * scale;
        const T found = narrow<T>(scale * __fmaf_rn(-normed, along, from * widen(weight[i].values[j])));
        Total<exact>::add(totals[i][j], from, widen(narrow<T>(normed)), lost);
        input[i].values[j] = job.residual == nullptr ? found : narrow<T>(widen(residual[i].values[j]) + widen(found));
      }
      static_cast<Values*>(job.input_gradient)[first + pack_of(i)] = input[i];
    }
  }
  if (!wants(job.weight_sum)) return;
  float* const parts = exact ? nullptr : job.scratch + static_cast<std::int64_t>(blockIdx.x) * 2 * job.width;
#pragma unroll
  for (int i = 0; i < per_thread; ++i)
    if (pack_of(i) < packs)
#pragma unroll
      for (int j = 0; j < eight; ++j) {
        const std::int64_t column = static_cast<std::int64_t>(pack_of(i)) * eight + j;
        if constexpr (exact)
          add_whole(job.weight_sum.multiples + column, totals[i][j]);
        else
          parts[column] = totals[i][j];
      }
  if constexpr (exact) add_whole(job.weight_sum.overflow, lost);
}

constexpr int most_packs = 4;  // of a thread

template <class T>
bool takes_packs(const NormGradient& job) {
  constexpr std::size_t bytes = sizeof(Pack<T, eight>);
  return job.width % eight == 0 && job.width <= most_packs * threads * eight && is_aligned(job.input, bytes) &&
         is_aligned(job.weight, bytes) && is_aligned(job.output_gradient, bytes) && is_aligned(job.residual, bytes) &&
         is_aligned(job.input_gradient, bytes);
}

template <class T, bool exact>
void launch_packs(cudaStream_t stream, const NormGradient& job) {
  const auto blocks = static_cast<unsigned>(blocks_of(job.rows));
  const auto packs = static_cast<int>(job.width / eight);
  const auto launch_with = [&](auto per_thread) {
    constexpr int each = decltype(per_thread)::value;
    gradient_packs<T, exact, each><<<blocks, threads_for((packs + each - 1) / each, threads), 0, stream>>>(job, packs);
  };
  if (packs <= threads)
    launch_with(std::integral_constant<int, 1>{});
  else if (packs <= 2 * threads)
    launch_with(std::integral_constant<int, 2>{});
  else
    launch_with(std::integral_constant<int, most_packs>{});
}

// values[width] += parts [count, 2 * width], in order. One warp's lanes are columns.
template <class Value>
__global__ void __launch_bounds__(lanes* parts_at_once)
    add_parts(const float* parts, std::int64_t count, std::int64_t width, Value* values) {
  __shared__ float shared[parts_at_once][lanes];
  const int lane = static_cast<int>(threadIdx.x) % lanes, group = static_cast<int>(threadIdx.x) / lanes;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * lanes + lane;
  float sum = 0;
  if (column < width)
    for (std::int64_t part = group; part < count; part += parts_at_once) sum += parts[part * 2 * width + column];
  shared[group][lane] = sum;
  __syncthreads();
  if (group != 0 || column >= width) return;
  for (int i = 1; i < parts_at_once; ++i) sum += shared[i][lane];
  values[column] = narrow<Value>(widen(values[column]) + sum);
}

template <class T, bool centered, bool exact>
void launch_rows(cudaStream_t stream, const NormGradient& job) {
  const auto bytes = static_cast<std::size_t>(job.width) * (centered ? 2 : 1) * sizeof(typename Total<exact>::Value);
  constexpr std::size_t without_asking = 48 * 1024;
  if (bytes > without_asking)
    cudaFuncSetAttribute(gradient_rows<T, centered, exact>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(bytes));
  gradient_rows<T, centered, exact><<<static_cast<unsigned>(blocks_of(job.rows)), threads, bytes, stream>>>(job);
}

template <class T, bool centered, bool exact>
void launch(cudaStream_t stream, const NormGradient& job) {
  const auto blocks = static_cast<unsigned>(blocks_of(job.rows));
  if (!centered && takes_packs<T>(job))
    launch_packs<T, exact>(stream, job);
  else
    launch_rows<T, centered, exact>(stream, job);
  if constexpr (!exact) {
    const auto columns = static_cast<unsigned>((job.width + lanes - 1) / lanes);
    const auto add = [&](const Sum& sum, const float* parts) {
      if (sum.rounded != nullptr)
        add_parts<<<columns, lanes * parts_at_once, 0, stream>>>(parts, blocks, job.width,
                                                                 static_cast<__nv_bfloat16*>(sum.rounded));
      else if (sum.values != nullptr)
        add_parts<<<columns, lanes * parts_at_once, 0, stream>>>(parts, blocks, job.width, sum.values);
    };
    add(job.weight_sum, job.scratch);
    if (centered) add(job.bias_sum, job.scratch + job.width);
  }
}

}  // namespace

std::int64_t norm_gradient_scratch(std::int64_t rows, std::int64_t width) { return blocks_of(rows) * 2 * width; }

LaunchError norm_gradient(Stream stream, Scalar scalar, const NormGradient& job) {
  if (job.rows == 0) return "";
  const bool exact = job.weight_sum.multiples != nullptr || job.bias_sum.multiples != nullptr;
  return dispatch(scalar, [&](auto element) {
    using T = decltype(element);
    const auto on = static_cast<cudaStream_t>(stream);
    if (job.centered)
      exact ? launch<T, true, true>(on, job) : launch<T, true, false>(on, job);
    else
      exact ? launch<T, false, true>(on, job) : launch<T, false, false>(on, job);
  });
}

}  // namespace muster::cuda
