// What a block computes between its products: norms, rotation, activations, forward and backward, on one device. Each
// row separately.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "spec/model/activation.hpp"
#include "tensor/dropout.hpp"
#include "tensor/gradient_sum.hpp"
#include "tensor/primitives.hpp"
#include "tensor/side_by_side.hpp"

namespace muster::tensor {

struct GatedGradient {
  at::Tensor gate;
  at::Tensor up;
  at::Tensor activated;  // what activate() gave, recomputed: that is cheaper than keeping it
};

// What happens to a row of joined queries, keys and values before attention.
struct HeadSplit {
  AttentionShape shape;
  at::Tensor query_norm;  // [head_size]: an RMS norm over each head; undefined: none
  at::Tensor key_norm;
  double epsilon = 0;
  at::Tensor cosines;  // as for rotate(); undefined: nothing is rotated
  at::Tensor sines;
};


class RowOps {
 public:
  virtual ~RowOps() = default;

  // input: [rows, width]; weight: [width]. x / sqrt(mean(x²) + epsilon) in float32, cast, times weight.
  virtual at::Tensor rms_norm(const at::Tensor& input, const at::Tensor& weight, double epsilon) = 0;
  // Returns the input's gradient, added to residual where that is defined; the weight's is added to its sum, row by
  // row.
  virtual at::Tensor rms_norm_gradient(const at::Tensor& input, const at::Tensor& weight, double epsilon,
                                       const at::Tensor& output_gradient, const GradientSum& weight_sum,
                                       const at::Tensor& residual) = 0;
  virtual at::Tensor layer_norm(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                                double epsilon) = 0;
  virtual at::Tensor layer_norm_gradient(const at::Tensor& input, const at::Tensor& weight, double epsilon,
                                         const at::Tensor& output_gradient, const GradientSum& weight_sum,
                                         const GradientSum& bias_sum, const at::Tensor& residual) = 0;

  // input: [rows, heads * head_size]; cosines and sines: [rows, head_size / 2], float32, rounded to the input's type
  // first. Rotates the pair (i, i + head_size / 2) of each head. Its gradient is the same with the sines negated.
  virtual at::Tensor rotate(const at::Tensor& input, const at::Tensor& cosines, const at::Tensor& sines) = 0;
  // Its gradient, given the gradient of its output; may reuse the memory of the latter.
  virtual at::Tensor rotate_back(const at::Tensor& gradient, const at::Tensor& cosines, const at::Tensor& sines) {
    return rotate(gradient, cosines, -sines);
  }
  // joined: [rows, (heads + 2 * kv_heads) * head_size]. Queries and keys are normed and rotated; keys and values also
  // go into the cache, row by row at slots, where there is one.
  virtual HeadRows split_heads(const HeadSplit& split, const at::Tensor& joined, const at::Tensor& slots,
                               const LayerCache& cache) = 0;

  // Its gradient where nothing is normed: that of the joined rows.
  virtual at::Tensor join_gradients(const HeadSplit& split, const AttentionGradient& heads) {
    return side_by_side({rotate_back(heads.queries, split.cosines, split.sines),
                         rotate_back(heads.keys, split.cosines, split.sines), heads.values});
  }

  // activation(gate) * up; up undefined: activation(gate) alone. Both may be halves of one matrix.
  virtual at::Tensor activate(spec::Activation activation, const at::Tensor& gate, const at::Tensor& up) = 0;
  // For gate and up, which may lie side by side in one matrix (tensor/side_by_side.hpp). The activated values may reuse
  // output_gradient's memory.
  virtual GatedGradient activate_gradient(spec::Activation activation, const at::Tensor& gate, const at::Tensor& up,
                                          const at::Tensor& output_gradient) = 0;

  // input: [rows, width]. Its gradient is the same of the gradient.
  virtual at::Tensor drop(const at::Tensor& input, const Dropout& dropout) {
    return input * kept_inputs(dropout, input.size(1)).to(input.scalar_type());
  }
};

}  // namespace muster::tensor
