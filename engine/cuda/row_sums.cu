// Sums over rows of gradients.
#include "cuda/dispatch.cuh"
#include "cuda/exact.cuh"

namespace muster::cuda {
namespace {

constexpr int threads = 256;
constexpr int rows_at_once = 64;

unsigned blocks_for(std::int64_t count) { return static_cast<unsigned>((count + threads - 1) / threads); }

__global__ void __launch_bounds__(threads) add_terms(const float* values, std::int64_t count, Sum sum) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (index >= count) return;
  Count lost = 0;
  sum.multiples[index] += static_cast<std::int64_t>(exact_term(values[index], lost));
  add_whole(sum.overflow, lost);
}

// A thread has one column of some rows.
template <class T>
__global__ void __launch_bounds__(threads)
    add_columns(const T* values, std::int64_t rows, std::int64_t width, Sum sum) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (column >= width) return;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.y) * rows_at_once;
  const std::int64_t last = min(rows, first + rows_at_once);
  Count total = 0, lost = 0;
  for (std::int64_t row = first; row < last; ++row) total += exact_term(widen(values[row * width + column]), lost);
  add_whole(sum.multiples + column, total);
  add_whole(sum.overflow, lost);
}

template <class T, bool exact>
__global__ void __launch_bounds__(threads) scatter(const T* values, const std::int64_t* indices, std::int64_t count,
                                                   std::int64_t width, std::int64_t sum_rows, Sum sum) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (index >= count) return;
  const std::int64_t row = indices[index / width];
  if (row < 0 || row >= sum_rows) return;
  const std::int64_t place = row * width + index % width;
  if constexpr (exact) {
    Count lost = 0;
    add_whole(sum.multiples + place, exact_term(widen(values[index]), lost));
    add_whole(sum.overflow, lost);
  } else {
    atomicAdd(sum.values + place, widen(values[index]));
  }
}

// A thread has one column of the rows of one index, and only where its row is the first of them.
template <class T>
__global__ void __launch_bounds__(threads)
    add_terms_of_rows(const T* values, const std::int64_t* sorted, const std::int64_t* order, std::int64_t rows,
                      std::int64_t width, std::int64_t sum_rows, __nv_bfloat16* sum) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (index >= rows * width) return;
  const std::int64_t first = index / width, column = index % width;
  const std::int64_t row = sorted[first];
  if (row < 0 || row >= sum_rows || (first > 0 && sorted[first - 1] == row)) return;
  float term = 0;
  for (std::int64_t i = first; i < rows && sorted[i] == row; ++i) term += widen(values[order[i] * width + column]);
  __nv_bfloat16* const place = sum + row * width + column;
  *place = narrow<__nv_bfloat16>(widen(*place) + term);
}

}  // namespace

LaunchError add_exactly(Stream stream, const float* values, std::int64_t count, const Sum& sum) {
  if (count == 0) return "";
  return launched(
      [&] { add_terms<<<blocks_for(count), threads, 0, static_cast<cudaStream_t>(stream)>>>(values, count, sum); });
}

LaunchError add_rows_exactly(Stream stream, Scalar scalar, const void* values, std::int64_t rows, std::int64_t width,
                             const Sum& sum) {
  if (rows == 0 || width == 0) return "";
  return dispatch(scalar, [&](auto element) {
    using T = decltype(element);
    const dim3 grid(blocks_for(width), static_cast<unsigned>((rows + rows_at_once - 1) / rows_at_once));
    add_columns<T>
        <<<grid, threads, 0, static_cast<cudaStream_t>(stream)>>>(static_cast<const T*>(values), rows, width, sum);
  });
}

LaunchError add_rows_at(Stream stream, Scalar scalar, const void* values, const std::int64_t* indices,
                        std::int64_t rows, std::int64_t width, std::int64_t sum_rows, const Sum& sum) {
  const std::int64_t count = rows * width;
  if (count == 0) return "";
  return dispatch(scalar, [&](auto element) {
    using T = decltype(element);
    const auto on = static_cast<cudaStream_t>(stream);
    if (sum.multiples != nullptr)
      scatter<T, true>
          <<<blocks_for(count), threads, 0, on>>>(static_cast<const T*>(values), indices, count, width, sum_rows, sum);
    else
      scatter<T, false>
          <<<blocks_for(count), threads, 0, on>>>(static_cast<const T*>(values), indices, count, width, sum_rows, sum);
  });
}

LaunchError add_sorted_rows(Stream stream, Scalar scalar, const void* values, const std::int64_t* sorted,
                            const std::int64_t* order, std::int64_t rows, std::int64_t width, std::int64_t sum_rows,
                            const Sum& sum) {
  if (rows * width == 0) return "";
  return dispatch(scalar, [&](auto element) {
    using T = decltype(element);
    add_terms_of_rows<T><<<blocks_for(rows * width), threads, 0, static_cast<cudaStream_t>(stream)>>>(
        static_cast<const T*>(values), sorted, order, rows, width, sum_rows, static_cast<__nv_bfloat16*>(sum.rounded));
  });
}

}  // namespace muster::cuda
