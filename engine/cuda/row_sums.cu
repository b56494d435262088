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

// In rows sorted by index, a run is those of one index. It is summed by stretches of rows: a thread has
// one column of a stretch. A run that is in several leaves a term for each, two rows of terms for a stretch: for the
// run that continues from the one before, and for the one that begins here.
constexpr std::int64_t stretch_rows = 64;

struct SortedRows {
  const std::int64_t* indices;
  const std::int64_t* order;
  std::int64_t rows;
  std::int64_t width;

  __device__ bool goes_on(std::int64_t row) const { return row > 0 && row < rows && indices[row] == indices[row - 1]; }
};

__device__ float* term_of(float* terms, const SortedRows& sorted, std::int64_t stretch, bool begins) {
  return terms + (2 * stretch + (begins ? 1 : 0)) * sorted.width;
}

__device__ void add_term(__nv_bfloat16* sum, std::int64_t sum_rows, std::int64_t row, std::int64_t width,
                         std::int64_t column, float term) {
  if (row < 0 || row >= sum_rows) return;
  __nv_bfloat16* const place = sum + row * width + column;
  *place = narrow<__nv_bfloat16>(widen(*place) + term);
}

template <class T>
__global__ void __launch_bounds__(threads)
    add_stretches(const T* values, SortedRows sorted, float* terms, std::int64_t sum_rows, __nv_bfloat16* sum) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.y) * threads + threadIdx.x;
  if (column >= sorted.width) return;
  const std::int64_t stretch = blockIdx.x, first = stretch * stretch_rows;
  const std::int64_t last = min(sorted.rows, first + stretch_rows);
  bool begins = !sorted.goes_on(first);
  float term = 0;
  for (std::int64_t row = first; row < last; ++row) {
    term += widen(values[sorted.order[row] * sorted.width + column]);
    const bool goes_on = sorted.goes_on(row + 1);
    if (goes_on && row + 1 < last) continue;
    if (begins && !goes_on)
      add_term(sum, sum_rows, sorted.indices[row], sorted.width, column, term);
    else
      term_of(terms, sorted, stretch, begins)[column] = term;
    begins = true;
    term = 0;
  }
}

// For the run that begins in the stretch and continues after it.
__global__ void __launch_bounds__(threads)
    join_stretches(SortedRows sorted, float* terms, std::int64_t sum_rows, __nv_bfloat16* sum) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.y) * threads + threadIdx.x;
  if (column >= sorted.width) return;
  const std::int64_t stretch = blockIdx.x, first = stretch * stretch_rows, next = first + stretch_rows;
  if (!sorted.goes_on(next)) return;
  const std::int64_t row = sorted.indices[next];
  if (first > 0 && sorted.indices[first - 1] == row) return;
  float term = term_of(terms, sorted, stretch, true)[column];
  for (std::int64_t other = stretch + 1; other * stretch_rows < sorted.rows; ++other) {
    if (sorted.indices[other * stretch_rows] != row) break;
    term += term_of(terms, sorted, other, false)[column];
  }
  add_term(sum, sum_rows, row, sorted.width, column, term);
}

std::int64_t stretches_of(std::int64_t rows) { return (rows + stretch_rows - 1) / stretch_rows; }

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

std::int64_t sorted_row_terms(std::int64_t rows, std::int64_t width) { return 2 * stretches_of(rows) * width; }

LaunchError add_sorted_rows(Stream stream, Scalar scalar, const void* values, const std::int64_t* sorted,
                            const std::int64_t* order, std::int64_t rows, std::int64_t width, std::int64_t sum_rows,
                            float* terms, const Sum& sum) {
  if (rows * width == 0) return "";
  return dispatch(scalar, [&](auto element) {
    using T = decltype(element);
    const auto on = static_cast<cudaStream_t>(stream);
    const SortedRows all{sorted, order, rows, width};
    auto* const rounded = static_cast<__nv_bfloat16*>(sum.rounded);
    const dim3 grid(static_cast<unsigned>(stretches_of(rows)), blocks_for(width));
    add_stretches<T><<<grid, threads, 0, on>>>(static_cast<const T*>(values), all, terms, sum_rows, rounded);
    join_stretches<<<grid, threads, 0, on>>>(all, terms, sum_rows, rounded);
  });
}

}  // namespace muster::cuda
