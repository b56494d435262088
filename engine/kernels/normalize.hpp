// RMS and layer normalisation of rows, forward and backward. Sums over a row go through sixteen lanes and a fixed tree,
// so that a row's result depends on that row alone; sums over rows (gradients of weights) run in ascending order,
// restarted every 256 rows.
#pragma once

#include <cstdint>

#include "kernels/scalar.hpp"
#include "kernels/sum.hpp"
#include "kernels/thread_team.hpp"

namespace muster::kernels {

// [rows, columns] of io, and what they are normalised with.
struct Normalization {
  const void* input = nullptr;
  Scalar io = Scalar::float32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  const float* weight = nullptr;  // [columns]
  const float* bias = nullptr;    // [columns], layer_norm only; may be null
  float epsilon = 0.0F;
  const void* added = nullptr;  // to the input's gradient, of its shape and type; may be null
};

// x / √(mean(x²) + epsilon), rounded to io, then times weight, rounded again: as transformers does. output may be
// input.
void rms_norm(ThreadTeam& team, const Normalization& normalization, void* output);
// The weight's gradient is added to its sum, where that is wanted; each row is a term.
void rms_norm_gradient(ThreadTeam& team, const Normalization& normalization, const void* output_gradient,
                       void* input_gradient, const Sum& weight_sum);

// (x - mean) / √(variance + epsilon) · weight + bias, rounded once. output may be input.
void layer_norm(ThreadTeam& team, const Normalization& normalization, void* output);
void layer_norm_gradient(ThreadTeam& team, const Normalization& normalization, const void* output_gradient,
                         void* input_gradient, const Sum& weight_sum, const Sum& bias_sum);

}  // namespace muster::kernels
