// Products of some rows with a packed weight: its codes stream once through all multiprocessors, and become numbers on
// the way to the tensor cores, so that up to eight rows cost what one costs.
//
// Note [Tiles of codes]
// A tile is two panels of sixteen outputs, next to each other or, of a gated product, a panel of gates and what they
// let through. A block has some tiles, and each tile some warps, which share the inputs, 64 at a time, and whose sums
// are added up in shared memory, in order. Lane 4 i + j reads, of each 32 inputs, octet j of quad i: 16 bytes of codes.
// A tensor core takes sixteen outputs times sixteen inputs from a warp: of a lane two outputs of its quad and half of
// its octet. Which inputs these are does not matter to a sum as long as the rows' lie alike, so the rows' octets are
// read the same way, 16 bytes at a time: of up to eight rows from the device's memory, of more from shared memory,
// where the next stage of inputs is copied while this one is multiplied.
#include <algorithm>
#include <type_traits>

#include "cuda/async_copy.cuh"
#include "cuda/code_queue.cuh"
#include "cuda/dependent_launch.cuh"
#include "cuda/dispatch.cuh"
#include "cuda/gate.cuh"
#include "cuda/launched_memory.cuh"
#include "cuda/pair_decoder.cuh"
#include "cuda/tensor_core.cuh"

namespace muster::cuda {
namespace {

constexpr int tile_outputs = 2 * panel_outputs;
constexpr int octet_bytes = 16;    // of a row
constexpr int stage_padding = 64;  // bytes, so that the rows that eight lanes read lie in different banks

// How many warps a block may have: what registers leave.
constexpr int most_warps(int row_tiles) { return row_tiles == 1 ? 18 : row_tiles <= 4 ? 16 : 12; }
// How many chunks of codes a warp has under way.
constexpr int chunks_ahead(int row_tiles) { return row_tiles == 1 ? 4 : row_tiles <= 4 ? 2 : 1; }

// How a launch spreads the work.
struct Spread {
  int tiles;         // of a block, side by side
  int parts;         // warps of a tile
  int blocks;
  int stage_chunks;  // of more than eight rows: how many are in shared memory at once
  int stage_rounds;  // and how many of them each warp of a tile has
  std::size_t shared_bytes;
};

struct ProductTask {
  PackedTask packed;
  const void* bias;
  const void* input;
  void* output;
  int rows;
  bool adds;
  int tiles;  // of the whole weight
  Spread spread;
};

template <class T, bool bytes, bool gated, int row_tiles>
class PackedBlock {
  static constexpr bool staged = row_tiles > 1;
  static constexpr int ahead = chunks_ahead(row_tiles);
  using Decoder = PairDecoder<T, bytes>;
  using Queue = std::conditional_t<staged, RegisterQueue<bytes, ahead>, SharedQueue<bytes, ahead>>;

  // A lane's part of 64 inputs of a row of each eight.
  struct RowChunk {
    uint4 words[halves];
  };

 public:
  static constexpr std::size_t queue_bytes = Queue::warp_bytes;

  __device__ explicit PackedBlock(const ProductTask& task)
      : task_(task),
        decoder_(launched_memory<unsigned char>()),
        scratch_(launched_memory<unsigned char>() + Decoder::table_bytes),
        warp_(own_warp()),
        tile_of_block_(warp_ / task.spread.parts),
        part_(warp_ % task.spread.parts),
        row_(static_cast<int>(threadIdx.x) % lanes / quad),
        octet_(static_cast<int>(threadIdx.x) % quad),
        chunks_(static_cast<int>(task.packed.inputs / chunk)),
        input_(static_cast<const T*>(task.input)) {}

  __device__ void run() {
    const int at_once = static_cast<int>(gridDim.x) * task_.spread.tiles;
    for (int first = static_cast<int>(blockIdx.x) * task_.spread.tiles; first < task_.tiles; first += at_once) {
      if (first >= at_once) __syncthreads();  // sums of the tiles before are still read
      multiply_tile_of(first + tile_of_block_, first < at_once);
      __syncthreads();  // what others still read lies where the sums go
      share();
      __syncthreads();
      if (first + tile_of_block_ < task_.tiles) finish(first + tile_of_block_);
    }
  }

 private:
  __device__ void multiply_tile_of(int tile, bool is_first) {
    const TileCodes codes = codes_of_tile(min(tile, task_.tiles - 1));
#pragma unroll
    for (int i = 0; i < row_tiles * 8; ++i) sums_[i / 8][i / 4 % 2][i % 4] = 0;
    const int parts = task_.spread.parts, rounds = (chunks_ + parts - 1) / parts;
    Queue queue(scratch_, codes);
#pragma unroll
    for (int i = 0; i < ahead; ++i) ask(queue, i, part_ + i * parts);
    if (is_first) {
      Decoder::fill(launched_memory<unsigned char>(), task_.packed.values);
      __syncthreads();
      // Weights are there before the kernels ahead of this one have ended; the rows are not.
      wait_for_those_before();
      let_the_next_begin();
    }
    Stages stages = first_stage();
    RowChunk rows, next_rows;
    if constexpr (!staged) next_rows = read_rows(rows_at(part_));
    for (int first = 0; first < rounds; first += ahead) {
#pragma unroll
      for (int i = 0; i < ahead; ++i) {
        const int now = part_ + (first + i) * parts;
        const unsigned char* staged_rows = nullptr;
        if constexpr (staged)
          if (first + i < rounds) staged_rows = next_of_stage(stages);
        if (now < chunks_) {
          if constexpr (!staged) {
            rows = next_rows;
            if (now + parts < chunks_) next_rows = read_rows(rows_at(now + parts));
          }
          multiply(queue.take(i), rows, staged_rows);
        }
        ask(queue, i, now + ahead * parts);
      }
    }
    if constexpr (bytes) scale_sums(codes);
  }

  __device__ int panel_of(int tile, int which) const {
    const int panels = task_.packed.panels;
    if constexpr (gated) return tile + which * (panels / 2);
    return min(2 * tile + which, panels - 1);  // beyond the last its codes are read again, for nothing
  }
  __device__ TileCodes codes_of_tile(int tile) const {
    TileCodes codes;
#pragma unroll
    for (int which = 0; which < 2; ++which) {
      const int panel = panel_of(tile, which);
      codes.codes[which] = codes_of<bytes>(task_.packed, panel, 0, 0);
      codes.scales[which] = scales_of(task_.packed, panel, 0);
    }
    return codes;
  }

  __device__ void ask(Queue& queue, int slot, int at) const {
    const auto place = static_cast<unsigned>(at);
    if (at < chunks_)
      queue.ask(slot, place, place * chunk >> task_.packed.run_shift);
    else
      queue.ask_nothing();
  }

  // Stages are copied by all threads, one while the one before it is multiplied.
  struct Stages {
    int next = 0;         // to be entered
    int rounds_left = 0;  // of the one that was entered
    const unsigned char* rows = nullptr;
  };
  __device__ int stage_row_bytes() const {
    return task_.spread.stage_chunks * chunk * static_cast<int>(sizeof(T)) + stage_padding;
  }
  __device__ unsigned char* stage_at(int stage) const {
    return scratch_ + stage % 2 * (row_tiles * 8 * stage_row_bytes());
  }
  __device__ Stages first_stage() const {
    if constexpr (staged) copy_stage(0);
    return {};
  }
  // This lane's inputs of the warp's next chunk, of the first eight rows.
  __device__ const unsigned char* next_of_stage(Stages& stages) const {
    constexpr int chunk_bytes = chunk * static_cast<int>(sizeof(T));
    if (stages.rounds_left == 0) {
      wait_for_copies();
      __syncthreads();
      copy_stage(stages.next + 1);
      stages.rows = stage_at(stages.next++) + row_ * stage_row_bytes() + part_ * chunk_bytes + octet_ * octet_bytes;
      stages.rounds_left = task_.spread.stage_rounds;
    } else {
      stages.rows += task_.spread.parts * chunk_bytes;
    }
    --stages.rounds_left;
    return stages.rows;
  }
  __device__ void copy_stage(int stage) const {
    constexpr int packs_of_chunk = chunk / octet;
    const int first = stage * task_.spread.stage_chunks;
    const int packs = min(task_.spread.stage_chunks, chunks_ - first) * packs_of_chunk;
    const int warps = static_cast<int>(blockDim.x) / lanes;
    const auto row_step = static_cast<std::ptrdiff_t>(warps) * task_.packed.inputs;
    for (int pack = static_cast<int>(threadIdx.x) % lanes; pack < packs; pack += lanes) {
      const T* from = input_ + warp_ * task_.packed.inputs + (first * packs_of_chunk + pack) * octet;
      unsigned char* to = stage_at(stage) + warp_ * stage_row_bytes() + pack * octet_bytes;
      for (int row = warp_; row < task_.rows; row += warps) {
        copy_ahead(to, from);
        from += row_step;
        to += warps * stage_row_bytes();
      }
    }
  }

  // The same where there are no stages.
  __device__ const T* rows_at(int at) const {
    return input_ + row_ * task_.packed.inputs + at * chunk + octet_ * octet;
  }
  // Beyond the last row anything may be read: what comes of it is left out.
  __device__ RowChunk read_rows(const void* from) const {
    RowChunk rows;
#pragma unroll
    for (int half = 0; half < halves; ++half)
      rows.words[half] = staged || row_ < task_.rows ? static_cast<const uint4*>(from)[half * quad] : uint4{};
    return rows;
  }

  // first_rows: of up to eight rows; staged_rows: where those of more lie.
  __device__ void multiply(const CodeChunk<bytes>& read, const RowChunk& first_rows, const unsigned char* staged_rows) {
    unsigned a[halves][2][2][4];  // as a tensor core has them, of the two halves of an octet and of a quad
#pragma unroll
    for (int half = 0; half < halves; ++half)
#pragma unroll
      for (int step = 0; step < 2; ++step)
#pragma unroll
        for (int two = 0; two < 2; ++two)
#pragma unroll
          for (int i = 0; i < 4; ++i)
            a[half][step][two][i] = decoder_.pair(read.codes[half], 2 * two + i % 2, 2 * step + i / 2);
    constexpr int at_once = row_tiles == 1 ? 1 : 2;  // tiles, so that no sum waits for the one before it
#pragma unroll
    for (int first = 0; first < row_tiles; first += at_once) {
      RowChunk rows[at_once];
#pragma unroll
      for (int i = 0; i < at_once; ++i)
        rows[i] = staged ? read_rows(staged_rows + (first + i) * 8 * stage_row_bytes()) : first_rows;
      float run[at_once][2][4] = {};
#pragma unroll
      for (int half = 0; half < halves; ++half)
#pragma unroll
        for (int step = 0; step < 2; ++step)
#pragma unroll
          for (int i = 0; i < at_once; ++i)
#pragma unroll
            for (int two = 0; two < 2; ++two)
              multiply_tile<T>(bytes ? sums_[first + i][two] : run[i][two], a[half][step][two],
                               part(rows[i].words[half], 2 * step), part(rows[i].words[half], 2 * step + 1));
      if constexpr (!bytes)
#pragma unroll
        for (int i = 0; i < at_once; ++i)
#pragma unroll
          for (int two = 0; two < 2; ++two)
#pragma unroll
            for (int j = 0; j < 4; ++j)
              sums_[first + i][two][j] =
                  __fmaf_rn(run[i][two][j], part(read.scales, 2 * two + j / 2), sums_[first + i][two][j]);
    }
  }

  // With 8 bits an output has one scale for all inputs.
  __device__ void scale_sums(const TileCodes& codes) {
    const float4 scales = (row_ / quads == 0 ? codes.scales[0] : codes.scales[1])[row_ % quads];
#pragma unroll
    for (int i = 0; i < row_tiles * 8; ++i) {
      float& sum = sums_[i / 8][i / 4 % 2][i % 4];
      sum = __fmul_rn(sum, part(scales, i / 4 % 2 * 2 + i % 4 / 2));
    }
  }

  // [warps][rows][32]: what this warp found.
  __device__ float* sums_of(int warp) const {
    return reinterpret_cast<float*>(scratch_) + warp * task_.rows * tile_outputs;
  }
  __device__ void share() const {
    float* const own = sums_of(warp_);
#pragma unroll
    for (int tile = 0; tile < row_tiles; ++tile)
#pragma unroll
      for (int two = 0; two < 2; ++two)
#pragma unroll
        for (int at = 0; at < 4; ++at) {
          const int row = tile * 8 + octet_ * 2 + at % 2, output = two * 2 + at / 2;
          if (row < task_.rows)
            own[row * tile_outputs + row_ * quad + output] = sums_[tile][two][at];
        }
  }
  __device__ float shared_sum(int row, int output) const {
    const float* const found = sums_of(tile_of_block_ * task_.spread.parts) + row * tile_outputs + output;
    float sum = 0;
    for (int part = 0; part < task_.spread.parts; ++part) sum += found[part * task_.rows * tile_outputs];
    return sum;
  }

  // By the warps of the tile.
  __device__ void finish(int tile) const {
    constexpr int width = gated ? panel_outputs : tile_outputs;
    const std::int64_t outputs = gated ? task_.packed.outputs / 2 : task_.packed.outputs;
    const T* const bias = static_cast<const T*>(task_.bias);
    const int own = part_ * lanes + static_cast<int>(threadIdx.x) % lanes;
    for (int i = own; i < task_.rows * width; i += task_.spread.parts * lanes) {
      const int row = i / width, at = i % width;
      const std::int64_t output = static_cast<std::int64_t>(tile) * width + at;
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
  Decoder decoder_;
  unsigned char* scratch_;  // stages of rows, then sums
  int warp_, tile_of_block_, part_;
  int row_;    // of eight: that whose inputs this lane reads, and the quad of its codes
  int octet_;  // of each 32 inputs
  int chunks_;
  const T* input_;
  float sums_[row_tiles][2][4];  // of two outputs each, as multiply_tile has them
};

template <class T, bool bytes, bool gated, int row_tiles>
__global__ void __launch_bounds__(most_warps(row_tiles) * lanes)
    multiply_codes(const __grid_constant__ ProductTask task) {
  PackedBlock<T, bytes, gated, row_tiles>(task).run();
}

int device_attribute(cudaDeviceAttr attribute) {
  int device = 0, value = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&value, attribute, device);
  return value;
}

// Tiles side by side in as many blocks as there are multiprocessors, and as many warps for each as there is room for.
// table_bytes: what a block needs of its shared memory for the values of codes; queue_bytes: what a warp needs for
// chunks that are under way.
Spread spread_of(std::int64_t tiles, int chunks, int row_tiles, std::size_t table_bytes, std::size_t queue_bytes) {
  const std::int64_t multiprocessors = device_attribute(cudaDevAttrMultiProcessorCount);
  const auto room = static_cast<std::size_t>(device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin)) - table_bytes;
  const std::size_t sum_bytes = sizeof(float) * static_cast<std::size_t>(row_tiles * 8 * tile_outputs);
  const int most = std::min(most_warps(row_tiles), static_cast<int>(room / std::max(sum_bytes, queue_bytes)));
  const auto of_each = static_cast<int>((tiles + multiprocessors - 1) / multiprocessors);
  // How long a multiprocessor is busy, in chunks of a warp: those of each round, and what a round costs by itself.
  const int round_cost = row_tiles == 1 ? 3 : 16;
  const auto cost = [&](int of_block) {
    const int parts = std::min(most / of_block, chunks), rounds = (of_each + of_block - 1) / of_block;
    return rounds * ((chunks + parts - 1) / parts + round_cost);
  };
  Spread spread{};
  spread.tiles = 1;
  for (int of_block = 2; of_block <= std::min(of_each, most); ++of_block)
    if (cost(of_block) <= cost(spread.tiles)) spread.tiles = of_block;
  spread.parts = std::min(most / spread.tiles, chunks);
  const auto stage_bytes = [&](int of_stage) {
    const int row_bytes = of_stage * chunk / octet * octet_bytes + stage_padding;
    return row_tiles == 1 ? 0 : std::size_t{2} * static_cast<std::size_t>(row_tiles * 8 * row_bytes);
  };
  while (spread.parts > 1 && stage_bytes(spread.parts) > room) --spread.parts;
  const int share = (chunks + spread.parts - 1) / spread.parts;
  spread.parts = (chunks + share - 1) / share;
  spread.stage_rounds = 1;  // as many as there is room for: at the end of a stage all wait for the next
  while (spread.stage_rounds * spread.parts < chunks && stage_bytes((spread.stage_rounds + 1) * spread.parts) <= room)
    ++spread.stage_rounds;
  spread.stage_chunks = spread.stage_rounds * spread.parts;
  spread.blocks = static_cast<int>(std::min<std::int64_t>((tiles + spread.tiles - 1) / spread.tiles, multiprocessors));
  spread.shared_bytes =
      table_bytes + std::max(stage_bytes(spread.stage_chunks),
                             std::max(sum_bytes, queue_bytes) * static_cast<std::size_t>(spread.tiles * spread.parts));
  return spread;
}

template <class T, bool bytes, bool gated, int row_tiles>
void launch_product(cudaStream_t stream, ProductTask task) {
  const auto kernel = multiply_codes<T, bytes, gated, row_tiles>;
  task.tiles = gated ? task.packed.panels / 2 : (task.packed.panels + 1) / 2;
  task.spread = spread_of(task.tiles, static_cast<int>(task.packed.inputs / chunk), row_tiles,
                          PairDecoder<T, bytes>::table_bytes, PackedBlock<T, bytes, gated, row_tiles>::queue_bytes);
  const auto threads = static_cast<unsigned>(task.spread.tiles * task.spread.parts * lanes);
  if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(task.spread.shared_bytes)) == cudaSuccess)
    launch_overlapping(kernel, static_cast<unsigned>(task.spread.blocks), threads, task.spread.shared_bytes, stream,
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

// A chunk has one scale for each output. Chips with little shared memory have no room for the table of pairs, and a
// stage or the sums of one warp.
bool has_packed_product(Scalar scalar, const PackedMatrix& weight, std::int64_t rows) {
  constexpr std::size_t needed = 96 * 1024;
  return scalar != Scalar::float32 && rows >= 1 && rows <= most_packed_rows && weight.inputs % chunk == 0 &&
         weight.phases == nullptr && (weight.has_bytes() || weight.run >= chunk) &&
         static_cast<std::size_t>(device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin)) >= needed;
}

LaunchError packed_product(Stream stream, Scalar scalar, const PackedMatrix& weight, const void* bias,
                           const void* input, std::int64_t rows, bool adds, void* output) {
  return product<false>(stream, scalar, weight.has_bytes(),
                        {packed_task(weight), bias, input, output, static_cast<int>(rows), adds, 0, {}});
}

// Gates and what they let through are in panels of their own.
bool has_packed_gated_product(Scalar scalar, const PackedMatrix& weight, std::int64_t rows) {
  return has_packed_product(scalar, weight, rows) && weight.outputs % (2 * panel_outputs) == 0;
}

LaunchError packed_gated_product(Stream stream, Scalar scalar, const PackedMatrix& weight, const void* bias,
                                 const void* input, std::int64_t rows, void* output) {
  return product<true>(stream, scalar, weight.has_bytes(),
                       {packed_task(weight), bias, input, output, static_cast<int>(rows), false, 0, {}});
}

}  // namespace muster::cuda
