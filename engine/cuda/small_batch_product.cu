// Products of few rows: the weight is read once, as fast as memory gives it. One to eight warps of a block share two
// outputs, so that small weights keep the whole chip busy too. An output is the same sum in the same order for any
// number of rows.
#include <type_traits>

#include "cuda/dispatch.cuh"
#include "cuda/pack.cuh"
#include "cuda/warp.cuh"

namespace muster::cuda {
namespace {

constexpr int warps = 8;
constexpr int eight = 8;
constexpr int at_once = 2;                   // outputs of a warp: what was read of the rows serves both
constexpr std::int64_t enough_blocks = 528;  // four for each of 132 multiprocessors

// sharing: warps that have the same outputs.
template <class T, int rows, int sharing>
__global__ void __launch_bounds__(warps* lanes)
    multiply(const T* weight, const T* bias, const T* input, std::int64_t outputs, std::int64_t packs, bool adds,
             T* output) {
  constexpr int teams = warps / sharing;
  __shared__ float partial[sharing][teams][at_once][rows];
  const int warp = static_cast<int>(threadIdx.x) / lanes, lane = static_cast<int>(threadIdx.x) % lanes;
  const int team = warp / sharing, member = warp % sharing;
  const std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * teams + team) * at_once;
  const std::int64_t last = outputs - 1;
  const auto* weights = reinterpret_cast<const Pack<T, eight>*>(weight);
  const auto* one = weights + (first < last ? first : last) * packs;
  const auto* two = weights + (first + 1 < last ? first + 1 : last) * packs;
  const auto* inputs = reinterpret_cast<const Pack<T, eight>*>(input);
  float sums[at_once][rows] = {};
#pragma unroll 4
  for (std::int64_t pack = member * lanes + lane; pack < packs; pack += sharing * lanes) {
    const Pack<T, eight> a = one[pack], b = two[pack];
#pragma unroll
    for (int row = 0; row < rows; ++row) {
      const Pack<T, eight> x = inputs[row * packs + pack];
#pragma unroll
      for (int i = 0; i < eight; ++i) {
        const float value = widen(x.values[i]);
        sums[0][row] = __fmaf_rn(widen(a.values[i]), value, sums[0][row]);
        sums[1][row] = __fmaf_rn(widen(b.values[i]), value, sums[1][row]);
      }
    }
  }
#pragma unroll
  for (int at = 0; at < at_once; ++at)
#pragma unroll
    for (int row = 0; row < rows; ++row)
      if (const float sum = warp_sum(sums[at][row]); lane == 0) partial[member][team][at][row] = sum;
  if constexpr (sharing > 1)
    __syncthreads();
  else
    __syncwarp();
  if (member != 0 || lane >= at_once * rows) return;
  const int at = lane / rows, row = lane % rows;
  const std::int64_t column = first + at;
  if (column >= outputs) return;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < sharing; ++i) sum += partial[i][team][at][row];
  T* to = output + row * outputs + column;
  if (bias != nullptr) sum += widen(bias[column]);
  if (adds) sum += widen(*to);
  *to = narrow<T>(sum);
}

// The least that fills the chip, as long as every lane has something to read.
int sharing_for(std::int64_t outputs, std::int64_t packs) {
  int sharing = 1;
  while (sharing < warps && outputs * sharing / (warps * at_once) < enough_blocks && packs >= 2 * sharing * lanes)
    sharing *= 2;
  return sharing;
}

template <class T, int rows, int sharing>
void launch(cudaStream_t stream, const T* weight, const T* bias, const T* input, std::int64_t outputs,
            std::int64_t inputs, bool adds, T* output) {
  constexpr std::int64_t of_block = warps / sharing * at_once;
  multiply<T, rows, sharing><<<static_cast<unsigned>((outputs + of_block - 1) / of_block), warps * lanes, 0, stream>>>(
      weight, bias, input, outputs, inputs / eight, adds, output);
}

}  // namespace

bool has_small_batch_product(Scalar scalar, std::int64_t rows, std::int64_t inputs) {
  return scalar != Scalar::float32 && rows >= 1 && rows <= most_small_batch_rows && inputs % eight == 0;
}

LaunchError small_batch_product(Stream stream, Scalar scalar, const void* weight, const void* bias, const void* input,
                                std::int64_t rows, std::int64_t outputs, std::int64_t inputs, bool adds, void* output) {
  const int sharing = sharing_for(outputs, inputs / eight);
  return dispatch(scalar, [&](auto element) {
    using T = decltype(element);
    const auto with_rows = [&](auto count) {
      const auto with_sharing = [&](auto warps_of_team) {
        launch<T, decltype(count)::value, decltype(warps_of_team)::value>(
            static_cast<cudaStream_t>(stream), static_cast<const T*>(weight), static_cast<const T*>(bias),
            static_cast<const T*>(input), outputs, inputs, adds, static_cast<T*>(output));
      };
      switch (sharing) {
        case 1:
          return with_sharing(std::integral_constant<int, 1>());
        case 2:
          return with_sharing(std::integral_constant<int, 2>());
        case 4:
          return with_sharing(std::integral_constant<int, 4>());
        default:
          return with_sharing(std::integral_constant<int, 8>());
      }
    };
    switch (rows) {
      case 1:
        return with_rows(std::integral_constant<int, 1>());
      case 2:
        return with_rows(std::integral_constant<int, 2>());
      case 3:
        return with_rows(std::integral_constant<int, 3>());
      default:
        return with_rows(std::integral_constant<int, 4>());
    }
  });
}

}  // namespace muster::cuda
