// Products of some rows with a packed weight: its codes stream once through all multiprocessors, and become numbers on
// the way to the tensor cores, so that up to eight rows cost what one costs. The numbers are those that `unpack` gives.
//
// Note [Tiles of codes]
// A block has two panels of sixteen outputs, next to each other or, of a gated product, a panel of gates and what they
// let through; its warps share the inputs, 64 at a time, and add up what they found in shared memory, in order. Lane
// 4 i + j reads, of each 32 inputs, octet j of quad i: 16 bytes of codes. A tensor core takes sixteen outputs times
// sixteen inputs from a warp: of a lane two outputs of its quad and half of its octet. Which inputs these are does not
// matter to a sum as long as the rows' lie alike, so the rows' octets are read the same way, 16 bytes at a time.
#include <algorithm>
#include <type_traits>

#include "cuda/dependent_launch.cuh"
#include "cuda/dispatch.cuh"
#include "cuda/gate.cuh"
#include "cuda/launched_memory.cuh"
#include "cuda/packed_codes.cuh"
#include "cuda/tensor_core.cuh"

namespace muster::cuda {
namespace {

constexpr int chunk = 64;                  // inputs
constexpr int half_inputs = quad * octet;  // what a warp reads at once
constexpr int halves = chunk / half_inputs;
constexpr int tile_outputs = 2 * panel_outputs;
constexpr int least_warps = 2;

// How many warps a block may have, and a multiprocessor all together: what registers leave.
constexpr int most_warps(int row_tiles) { return row_tiles <= 4 ? 16 : 8; }
constexpr int room_for_warps(int row_tiles) { return row_tiles == 1 ? 20 : row_tiles <= 4 ? 16 : 8; }

struct ProductTask {
  PackedTask packed;
  const void* bias;
  const void* input;
  void* output;
  int rows;
  bool adds;
};

template <class T>
__device__ unsigned narrow_pair(float low, float high) {
  unsigned both;
  if constexpr (std::is_same_v<T, __half>) {
    const __half2 pair = __floats2half2_rn(low, high);
    memcpy(&both, &pair, sizeof(both));
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    memcpy(&both, &pair, sizeof(both));
  }
  return both;
}

// A lane's part of 64 inputs.
template <bool bytes>
struct CodeChunk {
  Codes<bytes> codes[halves];
  float4 scales;
};

template <class T, bool bytes, bool gated, int row_tiles>
class PackedBlock {
  static constexpr int ahead = (bytes ? 2 : 3) - (row_tiles > 2 ? 1 : 0);  // chunks of codes that are under way

 public:
  __device__ explicit PackedBlock(const ProductTask& task)
      : task_(task),
        decoder_(task.packed),
        warps_(static_cast<int>(blockDim.x) / lanes),
        warp_(own_warp()),
        row_(static_cast<int>(threadIdx.x) % lanes / quad),
        octet_(static_cast<int>(threadIdx.x) % quad),
        chunks_(static_cast<int>(task.packed.inputs / chunk)),
        codes_(codes_of<bytes>(task.packed, panel_of(row_ / quads), row_ % quads, octet_)),
        scales_(scales_of(task.packed, panel_of(row_ / quads), row_ % quads)),
        input_(static_cast<const T*>(task.input) + row_ * task.packed.inputs + octet_ * octet) {}

  __device__ void run() {
    CodeChunk<bytes> read[ahead];
    // Weights are there before the kernels ahead of this one have ended; the rows are not.
#pragma unroll
    for (int i = 0; i < ahead; ++i)
      if (warp_ + i * warps_ < chunks_) read[i] = read_chunk(warp_ + i * warps_);
    wait_for_those_before();
    let_the_next_begin();
    for (int first = warp_; first < chunks_; first += ahead * warps_) {
#pragma unroll
      for (int i = 0; i < ahead; ++i) {
        const int now = first + i * warps_, next = now + ahead * warps_;
        if (now >= chunks_) break;
        multiply(read[i], now);
        if (next < chunks_) read[i] = read_chunk(next);
      }
    }
    finish();
  }

 private:
  __device__ int panel_of(int which) const {
    const int panels = task_.packed.panels, tile = static_cast<int>(blockIdx.x);
    if constexpr (gated) return tile + which * (panels / 2);
    return min(2 * tile + which, panels - 1);  // beyond the last its codes are read again, for nothing
  }

  __device__ CodeChunk<bytes> read_chunk(unsigned at) const {
    constexpr unsigned half_words = quad * octet_words<bytes>;
    CodeChunk<bytes> read;
#pragma unroll
    for (unsigned half = 0; half < halves; ++half)
      read.codes[half] = read_codes<bytes>(codes_ + at * (halves * half_words) + half * half_words);
    read.scales = scales_[(at * chunk >> task_.packed.run_shift) * quads];
    return read;
  }

  __device__ uint4 read_row(int tile, unsigned at, unsigned half) const {
    if (tile * 8 + row_ >= task_.rows) return {};
    const unsigned rows_before = static_cast<unsigned>(tile) * 8 * static_cast<unsigned>(task_.packed.inputs);
    return *reinterpret_cast<const uint4*>(input_ + rows_before + at * chunk + half * half_inputs);
  }

  __device__ void multiply(const CodeChunk<bytes>& read, unsigned at) {
#pragma unroll
    for (unsigned half = 0; half < halves; ++half) {
      uint4 rows[row_tiles];
#pragma unroll
      for (int tile = 0; tile < row_tiles; ++tile) rows[tile] = read_row(tile, at, half);
#pragma unroll
      for (int step = 0; step < 2; ++step)
#pragma unroll
        for (int two = 0; two < 2; ++two) {
          const unsigned a[4] = {pair(read, half, 2 * two, 4 * step), pair(read, half, 2 * two + 1, 4 * step),
                                 pair(read, half, 2 * two, 4 * step + 2), pair(read, half, 2 * two + 1, 4 * step + 2)};
#pragma unroll
          for (int tile = 0; tile < row_tiles; ++tile)
            multiply_tile<T>(sums_[tile][two], a, part(rows[tile], 2 * step), part(rows[tile], 2 * step + 1));
        }
    }
  }

  // Inputs `input` and the next of an output of the quad.
  __device__ unsigned pair(const CodeChunk<bytes>& read, unsigned half, int output, int input) const {
    const float scale = part(read.scales, output);
    const float low = decoder_.value(read.codes[half], output, input);
    const float high = decoder_.value(read.codes[half], output, input + 1);
    return narrow_pair<T>(__fmul_rn(low, scale), __fmul_rn(high, scale));
  }

  // [warps][rows][32]: what this warp found.
  __device__ void share() const {
    float* const own = launched_memory<float>() + warp_ * task_.rows * tile_outputs;
#pragma unroll
    for (int tile = 0; tile < row_tiles; ++tile)
#pragma unroll
      for (int two = 0; two < 2; ++two)
#pragma unroll
        for (int at = 0; at < 4; ++at) {
          const int row = tile * 8 + octet_ * 2 + at % 2;
          if (row < task_.rows) own[row * tile_outputs + row_ * quad + two * 2 + at / 2] = sums_[tile][two][at];
        }
  }
  __device__ float shared_sum(int row, int output) const {
    const float* const found = launched_memory<float>() + row * tile_outputs + output;
    float sum = 0;
    for (int warp = 0; warp < warps_; ++warp) sum += found[warp * task_.rows * tile_outputs];
    return sum;
  }

  __device__ void finish() const {
    share();
    __syncthreads();
    constexpr int width = gated ? panel_outputs : tile_outputs;
    const std::int64_t outputs = gated ? task_.packed.outputs / 2 : task_.packed.outputs;
    const T* const bias = static_cast<const T*>(task_.bias);
    for (int i = static_cast<int>(threadIdx.x); i < task_.rows * width; i += static_cast<int>(blockDim.x)) {
      const int row = i / width, at = i % width;
      const std::int64_t output = static_cast<std::int64_t>(blockIdx.x) * width + at;
      if (output >= outputs) continue;
      float sum = shared_sum(row, at);
      if (bias != nullptr) sum += widen(bias[output]);
      T* const to = static_cast<T*>(task_.output) + row * outputs + output;
      if constexpr (gated) {
        float up = shared_sum(row, panel_outputs + at);
        if (bias != nullptr) up += widen(bias[outputs + output]);
        *to = gated_by_silu(narrow<T>(sum), narrow<T>(up));
      } else {
        if (task_.adds) sum += widen(*to);
        *to = narrow<T>(sum);
      }
    }
  }

  const ProductTask& task_;
  Decoder<bytes> decoder_;
  int warps_, warp_;
  int row_;     // of each tile: that whose inputs this lane reads, and the quad of its codes
  int octet_;  // of each 32 inputs
  int chunks_;
  const uint4* codes_;  // of this lane's quad
  const float4* scales_;
  const T* input_;
  float sums_[row_tiles][2][4] = {};  // of two outputs each, as multiply_tile has them
};

template <class T, bool bytes, bool gated, int row_tiles>
__global__ void __launch_bounds__(most_warps(row_tiles) * lanes)
    multiply_codes(const __grid_constant__ ProductTask task) {
  PackedBlock<T, bytes, gated, row_tiles>(task).run();
}

// As many as let all blocks be on the chip at once, and an equal share of the inputs for each.
int warps_for(std::int64_t tiles, std::int64_t chunks, int row_tiles) {
  int device = 0, multiprocessors = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  const std::int64_t tiles_at_once = (tiles + multiprocessors - 1) / multiprocessors;
  const std::int64_t most =
      std::clamp<std::int64_t>(room_for_warps(row_tiles) / tiles_at_once, least_warps, most_warps(row_tiles));
  const std::int64_t share = (chunks + most - 1) / most;
  return static_cast<int>((chunks + share - 1) / share);
}

template <class T, bool bytes, bool gated, int row_tiles>
void launch_product(cudaStream_t stream, const ProductTask& task) {
  const auto kernel = multiply_codes<T, bytes, gated, row_tiles>;
  const int tiles = gated ? task.packed.panels / 2 : (task.packed.panels + 1) / 2;
  const int warps = warps_for(tiles, task.packed.inputs / chunk, row_tiles);
  const std::size_t shared = sizeof(float) * static_cast<std::size_t>(warps * task.rows * tile_outputs);
  if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)) ==
      cudaSuccess)
    launch_overlapping(kernel, static_cast<unsigned>(tiles), static_cast<unsigned>(warps * lanes), shared, stream,
                       task);
}

template <class T, bool bytes, bool gated>
void launch_product(cudaStream_t stream, const ProductTask& task) {
  if (task.rows <= 8)
    launch_product<T, bytes, gated, 1>(stream, task);
  else if (task.rows <= 16)
    launch_product<T, bytes, gated, 2>(stream, task);
  else if (task.rows <= 32)
    launch_product<T, bytes, gated, 4>(stream, task);
  else
    launch_product<T, bytes, gated, 8>(stream, task);
}

template <bool gated>
LaunchError product(Stream stream, Scalar scalar, bool bytes, const ProductTask& task) {
  const auto on = static_cast<cudaStream_t>(stream);
  const auto with_type = [&](auto element) {
    using T = decltype(element);
    bytes ? launch_product<T, true, gated>(on, task) : launch_product<T, false, gated>(on, task);
  };
  return launched([&] { scalar == Scalar::bfloat16 ? with_type(__nv_bfloat16{}) : with_type(__half{}); });
}

}  // namespace

// A chunk has one scale for each output.
bool has_packed_product(Scalar scalar, const PackedMatrix& weight, std::int64_t rows) {
  return scalar != Scalar::float32 && rows >= 1 && rows <= most_packed_rows && weight.inputs % chunk == 0 &&
         weight.phases == nullptr && (weight.has_bytes() || weight.run >= chunk);
}

LaunchError packed_product(Stream stream, Scalar scalar, const PackedMatrix& weight, const void* bias,
                           const void* input, std::int64_t rows, bool adds, void* output) {
  return product<false>(stream, scalar, weight.has_bytes(),
                        {packed_task(weight), bias, input, output, static_cast<int>(rows), adds});
}

// Gates and what they let through are in panels of their own.
bool has_packed_gated_product(Scalar scalar, const PackedMatrix& weight, std::int64_t rows) {
  return has_packed_product(scalar, weight, rows) && weight.outputs % (2 * panel_outputs) == 0;
}

LaunchError packed_gated_product(Stream stream, Scalar scalar, const PackedMatrix& weight, const void* bias,
                                 const void* input, std::int64_t rows, void* output) {
  return product<true>(stream, scalar, weight.has_bytes(),
                       {packed_task(weight), bias, input, output, static_cast<int>(rows), false});
}

}  // namespace muster::cuda
