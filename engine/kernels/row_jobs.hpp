// What threads share of one operation on rows. Inside this layer only.
#pragma once

#include <cstdint>

#include "kernels/logits.hpp"
#include "kernels/normalize.hpp"
#include "kernels/rotate.hpp"
#include "kernels/sum.hpp"

namespace muster::kernels {

struct NormalizeJob {
  Normalization normalization;
  bool centered = false;  // layer norm
  const void* output_gradient = nullptr;
  void* output = nullptr;     // backward: the input's gradient
  float* means = nullptr;     // [rows], written by the backward pass
  float* inverses = nullptr;  // [rows]
};

// sum[columns] += over rows, values or values · normalised inputs.
struct ColumnSumJob {
  const void* values = nullptr;
  const void* inputs = nullptr;  // null: values alone
  const float* means = nullptr;  // null: zero
  const float* inverses = nullptr;
  bool round_inputs = false;  // the normalised input is rounded to io, as in the forward pass
  Scalar io = Scalar::float32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  Sum sum;
};

// sum[indices[i]][columns] += values[i]
struct RowScatterJob {
  const void* values = nullptr;
  Scalar io = Scalar::float32;
  const std::int64_t* indices = nullptr;
  const std::int64_t* order = nullptr;  // of a bfloat16 sum: the rows sorted by index, each index's in their order
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  Sum sum;
};

struct RotateJob {
  Rotation rotation;
  float direction = 1.0F;
};

enum class LogitsReduction { log_sum, select, softmax, argmax, select_back, loss };

struct LogitsJob {
  Logits logits;
  LogitsReduction reduction = LogitsReduction::log_sum;
  float inverse_temperature = 1.0F;  // of select and loss
  const std::int64_t* tokens = nullptr;
  const float* log_sums = nullptr;
  const float* result_gradients = nullptr;
  float* results = nullptr;
  std::int64_t* indices = nullptr;
  void* gradient = nullptr;
  const float* loss_weights = nullptr;     // of loss, one for each row
  const float* entropy_weights = nullptr;  // likewise; null: entropies count for nothing
  float* entropies = nullptr;              // where they do
};

// Elements of one row.
struct WeighJob {
  const float* logits = nullptr;
  float highest = 0.0F;
  double temperature = 1.0;
  std::uint64_t* weights = nullptr;
};

}  // namespace muster::kernels
