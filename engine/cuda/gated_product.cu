// The first half of a gated feed-forward block, for the rows of a decoding step: both products and the gate in one. The
// weight streams once through all multiprocessors, as fast as memory gives it, and tensor cores keep up with it. A
// block has a tile of gates, what they let through, and all rows; its tile is just large enough for one round of blocks
// to do it.
#include <algorithm>
#include <type_traits>

#include "cuda/dispatch.cuh"
#include "cuda/gate.cuh"
#include "cuda/dependent_launch.cuh"
#include "cuda/tensor_core.cuh"
#include "cuda/warp.cuh"

namespace muster::cuda {
namespace {

constexpr int piece = 8;               // elements of 16 bytes: what is copied at once
constexpr int pieces = 8;              // of a row, in one stage
constexpr int chunk = piece * pieces;  // inputs of one stage
constexpr int row_bytes = chunk * 2;
constexpr int stages = 5;
constexpr int gates_of_team = 16;
constexpr int least_teams = 2, most_teams = 9;

struct Task {
  const void* weight;
  const void* bias;
  const void* input;
  void* output;
  std::int64_t rows, outputs, inputs;
};

// Rows of 128 bytes, whose pieces are mixed so that neither copies nor ldmatrix meet a bank of shared memory twice.
__device__ inline unsigned place(int row, int at) {
  return static_cast<unsigned>(row * row_bytes + ((at ^ (row & 7)) << 4));
}
__device__ inline void copy_piece(unsigned to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
}
__device__ inline void load_matrices(unsigned address, unsigned (&to)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address));
}

// A team of warps has 16 gates and what they let through; each of its warps has some of the rows, in tiles of eight.
template <class T, int row_tiles, int warps_of_team>
class Block {
  static constexpr int copies = pieces / warps_of_team;  // of the weight, by each thread in each stage
  static constexpr int rows = 8 * row_tiles * warps_of_team;

 public:
  __device__ explicit Block(const Task& task)
      : task_(task),
        thread_(static_cast<int>(threadIdx.x)),
        threads_(static_cast<int>(blockDim.x)),
        warp_(thread_ / lanes),
        lane_(thread_ % lanes),
        gates_(threads_ / (2 * warps_of_team)),
        first_(static_cast<std::int64_t>(blockIdx.x) * gates_) {
    extern __shared__ __align__(128) unsigned char storage[];
    storage_ = static_cast<unsigned>(__cvta_generic_to_shared(storage));
    // Beyond the last output its weights are read again; the results are not used.
#pragma unroll
    for (int i = 0; i < copies / 2; ++i) {
      const std::int64_t gate = first_ + thread_ / pieces + i * (threads_ / pieces);
      weights_[i] =
          static_cast<const T*>(task.weight) + min(gate, task.outputs - 1) * task.inputs + thread_ % pieces * piece;
    }
  }

  __device__ void run() {
    const int chunks = static_cast<int>(task_.inputs / chunk);
    // The weight is there before the kernels ahead of this one have ended; the rows are not.
    for (int stage = 0; stage < stages - 1; ++stage) {
      if (stage < chunks) read_weights(stage);
      end_stage();
    }
    wait_for_those_before();
    read_first_rows(min(stages - 1, chunks));
    let_the_next_begin();
    int stage = 0;
    for (int now = 0; now < chunks; ++now) {
      asm volatile("cp.async.wait_group %0;" ::"n"(stages - 2) : "memory");
      __syncthreads();
      if (now + stages - 1 < chunks) {
        const int free_stage = stage == 0 ? stages - 1 : stage - 1;
        read_weights(free_stage);
        read_rows(free_stage, now + stages - 1);
      }
      end_stage();
      multiply(stage);
      stage = stage + 1 == stages ? 0 : stage + 1;
    }
    finish();
  }

 private:
  __device__ static void end_stage() { asm volatile("cp.async.commit_group;"); }
  __device__ unsigned weights_at(int stage) const {
    return storage_ + static_cast<unsigned>(stage * (2 * gates_ + rows) * row_bytes);
  }
  __device__ unsigned rows_at(int stage) const {
    return weights_at(stage) + static_cast<unsigned>(2 * gates_ * row_bytes);
  }
  __device__ int team() const { return warp_ / warps_of_team; }
  __device__ int first_row() const { return warp_ % warps_of_team * row_tiles * 8; }

  // The next chunk of the tile: gates, then what they let through.
  __device__ void read_weights(int stage) {
    const unsigned to = weights_at(stage);
    const std::int64_t second = task_.outputs * task_.inputs;
#pragma unroll
    for (int i = 0; i < copies / 2; ++i) {
      const int row = thread_ / pieces + i * (threads_ / pieces);
      copy_piece(to + place(row, thread_ % pieces), weights_[i]);
      copy_piece(to + place(row + gates_, thread_ % pieces), weights_[i] + second);
      weights_[i] += chunk;
    }
  }

  __device__ const T* row_piece(int index, int at_chunk) const {
    const std::int64_t row = min(static_cast<std::int64_t>(index / pieces), task_.rows - 1);
    return static_cast<const T*>(task_.input) + row * task_.inputs + at_chunk * chunk + index % pieces * piece;
  }
  __device__ void read_rows(int stage, int at_chunk) {
    for (int i = thread_; i < rows * pieces; i += threads_)
      copy_piece(rows_at(stage) + place(i / pieces, i % pieces), row_piece(i, at_chunk));
  }
  // Not in the queue of copies, where they would come after all of the weight's.
  __device__ void read_first_rows(int count) {
    constexpr int of_stage = rows * pieces, at_once = 8;
    const int last = count * of_stage - 1;
    for (int first = thread_; first <= last; first += at_once * threads_) {
      uint4 values[at_once];
#pragma unroll
      for (int i = 0; i < at_once; ++i) {
        const int index = min(first + i * threads_, last);
        values[i] = __ldcg(reinterpret_cast<const uint4*>(row_piece(index % of_stage, index / of_stage)));
      }
#pragma unroll
      for (int i = 0; i < at_once; ++i) {
        const int index = min(first + i * threads_, last), at = index % of_stage;
        asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(rows_at(index / of_stage) +
                                                                      place(at / pieces, at % pieces)),
                     "r"(values[i].x), "r"(values[i].y), "r"(values[i].z), "r"(values[i].w)
                     : "memory");
      }
    }
  }

  __device__ void multiply(int stage) {
    const unsigned weights = weights_at(stage), inputs = rows_at(stage);
#pragma unroll
    for (int step = 0; step < chunk / 16; ++step) {
      unsigned a[2][4];
#pragma unroll
      for (int i = 0; i < 2; ++i)
        load_matrices(weights + place(i * gates_ + team() * gates_of_team + lane_ % 16, step * 2 + lane_ / 16), a[i]);
#pragma unroll
      for (int tile = 0; tile < row_tiles; tile += 2) {
        unsigned b[4];
        load_matrices(inputs + place(first_row() + tile * 8 + lane_ % 8 + lane_ / 16 * 8, step * 2 + lane_ / 8 % 2), b);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          multiply_tile<T>(sums_[i][tile], a[i], b[0], b[1]);
          multiply_tile<T>(sums_[i][tile + 1], a[i], b[2], b[3]);
        }
      }
    }
  }

  // A thread has sums of two rows and of outputs that are eight apart, in each tile.
  __device__ void finish() const {
    const T* const bias = static_cast<const T*>(task_.bias);
#pragma unroll
    for (int tile = 0; tile < row_tiles; ++tile)
#pragma unroll
      for (int at = 0; at < 4; ++at) {
        const std::int64_t row = first_row() + tile * 8 + lane_ % 4 * 2 + at % 2;
        const std::int64_t output = first_ + team() * gates_of_team + lane_ / 4 + at / 2 * 8;
        if (row >= task_.rows || output >= task_.outputs) continue;
        float gate = sums_[0][tile][at], up = sums_[1][tile][at];
        if (bias != nullptr) {
          gate += widen(bias[output]);
          up += widen(bias[task_.outputs + output]);
        }
        static_cast<T*>(task_.output)[row * task_.outputs + output] = gated_by_silu(narrow<T>(gate), narrow<T>(up));
      }
  }

  const Task& task_;
  int thread_, threads_;
  int warp_, lane_;
  int gates_;           // of the tile
  std::int64_t first_;  // of them
  unsigned storage_;
  const T* weights_[copies / 2];  // what this thread reads next
  float sums_[2][row_tiles][4] = {};
};

template <class T, int row_tiles, int warps_of_team>
__global__ void __launch_bounds__(most_teams* warps_of_team* lanes, 1)
    gated_multiply(const __grid_constant__ Task task) {
  Block<T, row_tiles, warps_of_team>(task).run();
}

constexpr std::size_t shared_bytes(int teams, int rows) {
  return static_cast<std::size_t>(stages * (teams * 2 * gates_of_team + rows) * row_bytes);
}

// The fewest teams with which one round of blocks does everything; 0: there is no such number, or this chip cannot.
int teams_for(std::int64_t rows, std::int64_t outputs) {
  int device = 0, major = 0, multiprocessors = 0, shared = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (major < 8) return 0;
  const std::int64_t of_block = (outputs + multiprocessors - 1) / multiprocessors;
  const auto teams = static_cast<int>((of_block + gates_of_team - 1) / gates_of_team);
  const int padded = rows <= 16 ? 16 : rows <= 32 ? 32 : 64;
  const bool fits = shared_bytes(teams, padded) <= static_cast<std::size_t>(shared);
  return teams >= least_teams && teams <= most_teams && fits ? teams : 0;
}

template <class T, int row_tiles, int warps_of_team>
void launch(cudaStream_t stream, int teams, const Task& task) {
  const auto kernel = gated_multiply<T, row_tiles, warps_of_team>;
  const std::size_t bytes = shared_bytes(teams, 8 * row_tiles * warps_of_team);
  const std::int64_t of_block = teams * gates_of_team;
  if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)) == cudaSuccess)
    launch_overlapping(kernel, static_cast<unsigned>((task.outputs + of_block - 1) / of_block),
                       static_cast<unsigned>(teams * lanes * warps_of_team), bytes, stream, task);
}

template <class T>
void launch(cudaStream_t stream, const Task& task) {
  const int teams = teams_for(task.rows, task.outputs);
  if (task.rows <= 16)
    launch<T, 2, 1>(stream, teams, task);
  else if (task.rows <= 32)
    launch<T, 4, 1>(stream, teams, task);
  else
    launch<T, 4, 2>(stream, teams, task);
}

}  // namespace

bool has_gated_product(Scalar scalar, std::int64_t rows, std::int64_t outputs, std::int64_t inputs) {
  return scalar != Scalar::float32 && rows >= 1 && rows <= most_gated_rows && inputs % chunk == 0 &&
         teams_for(rows, outputs) != 0;
}

LaunchError gated_product(Stream stream, Scalar scalar, const void* weight, const void* bias, const void* input,
                          std::int64_t rows, std::int64_t outputs, std::int64_t inputs, void* output) {
  const Task task{weight, bias, input, output, rows, outputs, inputs};
  const auto on = static_cast<cudaStream_t>(stream);
  return launched([&] { scalar == Scalar::bfloat16 ? launch<__nv_bfloat16>(on, task) : launch<__half>(on, task); });
}

}  // namespace muster::cuda
