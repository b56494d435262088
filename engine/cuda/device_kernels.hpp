// muster's own kernels for NVIDIA GPUs. Raw device pointers; no torch here, so that any CUDA compiler builds it. The
// CPU twins are in engine/kernels; both stand behind engine/tensor's interfaces.
#pragma once

#include <cstdint>

namespace muster::cuda {

using Stream = void*;  // a cudaStream_t

enum class Scalar { float32, bfloat16, float16 };

// All return "" or what the driver reported about the launch.
using LaunchError = const char*;

// x / sqrt(mean(x²) + epsilon) in float32, cast, times weight. input, output: [rows, width].
LaunchError rms_norm(Stream stream, Scalar scalar, const void* input, const void* weight, float epsilon,
                     std::int64_t rows, std::int64_t width, void* output);
LaunchError layer_norm(Stream stream, Scalar scalar, const void* input, const void* weight, const void* bias,
                       float epsilon, std::int64_t rows, std::int64_t width, void* output);

// input [rows, inputs] times the transposed weight [outputs, inputs], plus bias (or null), plus what output has where
// it adds; rounded once. For products whose time goes into reading the weight from memory, not into arithmetic.
constexpr std::int64_t most_small_batch_rows = 4;
bool has_small_batch_product(Scalar scalar, std::int64_t rows, std::int64_t inputs);
LaunchError small_batch_product(Stream stream, Scalar scalar, const void* weight, const void* bias, const void* input,
                                std::int64_t rows, std::int64_t outputs, std::int64_t inputs, bool adds, void* output);

// gated_silu of the two halves of such a product, in one: the weight is [2 * outputs, inputs], gates first, and output
// [rows, outputs].
constexpr std::int64_t most_gated_rows = 32;
bool has_gated_product(Scalar scalar, std::int64_t rows, std::int64_t outputs, std::int64_t inputs);
LaunchError gated_product(Stream stream, Scalar scalar, const void* weight, const void* bias, const void* input,
                          std::int64_t rows, std::int64_t outputs, std::int64_t inputs, void* output);

// activation(gate) * up with silu, rounded after each of the two. gate, up: [rows, width], rows stride elements apart.
LaunchError gated_silu(Stream stream, Scalar scalar, const void* gate, const void* up, std::int64_t stride,
                       std::int64_t rows, std::int64_t width, void* output);

struct AttentionShape {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_size = 0;  // at most 256
  std::int64_t window = 0;     // 0: none
  float scale = 1;
};

// Where the rows' keys are; all pointers are the device's.
struct AttentionTables {
  const std::int64_t* row_sequence = nullptr;    // [rows]
  const std::int64_t* row_position = nullptr;    // [rows]
  const void* const* sequence_keys = nullptr;    // [sequences]: [blocks, block_tokens, kv_heads, head_size]
  const void* const* sequence_values = nullptr;  // [sequences]
  const std::int64_t* sequence_table = nullptr;  // [sequences]: where in block_table its blocks begin
  const std::int64_t* block_table = nullptr;
  const std::int64_t* sequence_block_tokens = nullptr;  // [sequences]
};

// The attention of deterministic mode: a warp for each query and head walks the keys in chunks of 64 from position 0,
// so that no bit depends on what else is computed. queries, output: [rows, heads * head_size]. log_sums: [heads, rows],
// ln of the sum of each query's powers; null: not wanted.
LaunchError attention(Stream stream, Scalar scalar, const AttentionShape& shape, const AttentionTables& tables,
                      const void* queries, std::int64_t rows, void* output, float* log_sums);

// What split_heads reads and writes; null where there is none.
struct HeadSplit {
  const void* joined = nullptr;      // [rows, (heads + 2 * kv_heads) * head_size]
  const void* query_norm = nullptr;  // [head_size]
  const void* key_norm = nullptr;
  float epsilon = 0;
  const float* cosines = nullptr;  // [rows, head_size / 2]
  const float* sines = nullptr;
  const std::int64_t* slots = nullptr;  // [rows], with a cache
  void* queries = nullptr;              // [rows, heads * head_size]
  void* keys = nullptr;                 // [rows, kv_heads * head_size]
  void* values = nullptr;
  void* cached_keys = nullptr;  // [slots, kv_heads * head_size]
  void* cached_values = nullptr;
};
// Queries and keys: an RMS norm over each head, then the rotation, rounded as torch's separate operations are.
LaunchError split_heads(Stream stream, Scalar scalar, const AttentionShape& shape, const HeadSplit& split,
                        std::int64_t rows);

// Rows that are alone in their sequence, with their keys in a cache.
struct DecodeTables {
  const std::int64_t* rows = nullptr;       // [count]: which row of queries and output
  const std::int64_t* positions = nullptr;  // by row
  const std::int64_t* blocks = nullptr;     // [count, most_blocks]
  std::int64_t count = 0;
  std::int64_t most_blocks = 0;
  std::int64_t block_tokens = 0;  // a multiple of 64
  const void* keys = nullptr;     // [blocks, block_tokens, kv_heads, head_size]
  const void* values = nullptr;
};
// Floats of scratch that decode_attention needs, and counters, which must be 0 and are left so.
std::int64_t decode_scratch(const AttentionShape& shape, const DecodeTables& tables);
std::int64_t decode_counters(const AttentionShape& shape, const DecodeTables& tables);
// Keys are taken in parts of 64, whose results are joined in order: a row's bits depend on that row alone. head_size: a
// multiple of 8, at most 256.
LaunchError decode_attention(Stream stream, Scalar scalar, const AttentionShape& shape, const DecodeTables& tables,
                             const void* queries, float* scratch, unsigned* counters, void* output);

struct ChoiceRules {
  double temperature = 1;
  std::int64_t top_k = 0;
  double top_p = 1;
  double min_p = 0;
  float repetition_penalty = 1;
  bool log_probabilities = false;
};
struct ChoiceRows {
  const void* logits = nullptr;  // [rows, width]
  std::int64_t rows = 0;
  std::int64_t width = 0;
  const double* uniforms = nullptr;          // [rows]
  const std::int64_t* given = nullptr;       // [rows]: a token, or -1
  const std::int64_t* seen_begin = nullptr;  // [rows + 1]: where its tokens begin in seen; with a penalty
  const std::int64_t* seen = nullptr;
  float* judged = nullptr;  // [rows, width] of scratch; null: only the likeliest tokens of the logits are wanted
};
struct ChoiceResults {
  std::int64_t* tokens = nullptr;      // [rows]; -1: no logit is a number
  float* log_probabilities = nullptr;  // [rows]
};
// tensor/token_choice.hpp says what is chosen.
LaunchError choose_tokens(Stream stream, Scalar scalar, const ChoiceRules& rules, const ChoiceRows& rows,
                          const ChoiceResults& results);

}  // namespace muster::cuda
