// muster's own kernels for NVIDIA GPUs. Raw device pointers; no torch here, so that any CUDA compiler builds it. The
// CPU twins are in engine/kernels; both stand behind engine/tensor's interfaces.
#pragma once

#include <cstdint>

namespace muster::cuda {

using Stream = void*;  // a cudaStream_t

enum class Scalar { float32, bfloat16, float16 };

// All return "" or what the driver said of the launch.
using LaunchError = const char*;

// x / sqrt(mean(x²) + epsilon) in float32, cast, times weight. input, output: [rows, width].
LaunchError rms_norm(Stream stream, Scalar scalar, const void* input, const void* weight, float epsilon,
                     std::int64_t rows, std::int64_t width, void* output);
LaunchError layer_norm(Stream stream, Scalar scalar, const void* input, const void* weight, const void* bias,
                       float epsilon, std::int64_t rows, std::int64_t width, void* output);

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
// so that no bit depends on what else is computed. queries, output: [rows, heads * head_size].
LaunchError attention(Stream stream, Scalar scalar, const AttentionShape& shape, const AttentionTables& tables,
                      const void* queries, std::int64_t rows, void* output);

}  // namespace muster::cuda
