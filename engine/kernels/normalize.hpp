// RMS and layer normalisation of rows, forward and backward. Sums over a row go through sixteen lanes and a fixed tree,
// so that a row's result depends on that row alone; sums over rows (gradients of weights) run in ascending order, begun
// anew every 256 rows.
#pragma once

#include <cstdint>

#include "kernels/accumulate.hpp"
#include "kernels/scalar.hpp"
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
};

// x / √(mean(x²) + epsilon), rounded to io, then times weight, rounded again: as transformers does. output may be
// input.
void rms_norm(ThreadTeam& team, const Normalization& normalization, void* output);
void rms_norm_gradient(ThreadTeam& team, const Normalization& normalization, const void* output_gradient,
                       void* input_gradient, float* weight_gradient, Accumulate mode);

// (x - mean) / √(variance + epsilon) · weight + bias, rounded once. output may be input.
void layer_norm(ThreadTeam& team, const Normalization& normalization, void* output);
// bias_gradient may be null.
void layer_norm_gradient(ThreadTeam& team, const Normalization& normalization, const void* output_gradient,
                         void* input_gradient, float* weight_gradient, float* bias_gradient, Accumulate mode);

}  // namespace muster::kernels
