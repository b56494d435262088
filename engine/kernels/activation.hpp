// The functions of feed-forward blocks and their gradients. Each is computed in float32 and rounded once; functions
// that different libraries name differently but define alike are one.
#pragma once

#include <cstdint>

#include "kernels/scalar.hpp"
#include "kernels/thread_team.hpp"

namespace muster::kernels {

enum class Activation {
  gelu,          // x Φ(x), exact
  gelu_clipped,  // the same, within ±10
  gelu_tanh,     // the form with tanh: gelu_new, gelu_fast, gelu_accurate, gelu_pytorch_tanh
  hardswish,
  laplace,
  leaky_relu,  // slope 0.01
  linear,
  mish,
  quick_gelu,  // x sigmoid(1.702 x)
  relu,
  relu_squared,
  relu6,
  sigmoid,
  silu,
  sqrt_softplus,
  tanh,
};

// output[count] = f(input)
void activate(ThreadTeam& team, Activation activation, const void* input, Scalar io, std::int64_t count, void* output);
// input_gradient[count] = f'(input) · output_gradient
void activate_gradient(ThreadTeam& team, Activation activation, const void* input, const void* output_gradient,
                       Scalar io, std::int64_t count, void* input_gradient);

// Two halves of a feed-forward block, each [rows, columns], rows stride elements apart: so that they may be the two
// halves of one matrix.
struct Gated {
  const void* gate = nullptr;
  const void* up = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t stride = 0;
};

// output[rows, columns] = f(gate) · up; f(gate) is rounded to io before the product, as transformers does.
void gated_activation(ThreadTeam& team, Activation activation, const Gated& gated, Scalar io, void* output);
// The gradients have the layout of gate and up.
void gated_activation_gradient(ThreadTeam& team, Activation activation, const Gated& gated, const void* output_gradient,
                               Scalar io, void* gate_gradient, void* up_gradient);

}  // namespace muster::kernels
