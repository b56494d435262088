// What threads share of one operation on rows. Inside this layer only.
#pragma once

#include <cstdint>

#include "kernels/logits.hpp"
#include "kernels/normalize.hpp"
#include "kernels/rotate.hpp"

namespace muster::kernels {

struct NormalizeJob {
  Normalization normalization;
  bool centered = false;  // layer norm
  const void* output_gradient = nullptr;
  void* output = nullptr;     // backward: the input's gradient
  float* means = nullptr;     // [rows], written by the backward pass
  float* inverses = nullptr;  // [rows]
};

// output[columns] = or += the sum over rows of values, or of values · normalised inputs.
struct ColumnSumJob {
  const void* values = nullptr;
  const void* inputs = nullptr;  // null: values alone
  const float* means = nullptr;  // null: zero
  const float* inverses = nullptr;
  bool round_inputs = false;  // the normalised input is rounded to io, as in the forward pass
  Scalar io = Scalar::float32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  float* output = nullptr;
  bool accumulate = false;
};

struct RotateJob {
  Rotation rotation;
  float direction = 1.0F;
};

enum class LogitsReduction { log_sum, select, softmax, argmax, select_back };

struct LogitsJob {
  Logits logits;
  LogitsReduction reduction = LogitsReduction::log_sum;
  float inverse_temperature = 1.0F;  // of select
  const std::int64_t* tokens = nullptr;
  const float* log_sums = nullptr;
  const float* result_gradients = nullptr;
  float* results = nullptr;
  std::int64_t* indices = nullptr;
  void* gradient = nullptr;
};

// Elements of one row.
struct WeighJob {
  const float* logits = nullptr;
  float highest = 0.0F;
  double temperature = 1.0;
  std::uint64_t* weights = nullptr;
};

}  // namespace muster::kernels
