// One transformer block. Forward and backward are calls of their own, so that recomputing, sharding and pipelining have
// one seam: a block and the values that go into it.
#pragma once

#include <memory>
#include <vector>

#include "model/gradients.hpp"
#include "model/pass.hpp"
#include "tensor/arithmetic.hpp"

namespace muster::model {

// What a block's backward needs of its forward.
struct Tape {
  std::vector<at::Tensor> tensors;
};

class Block {
 public:
  virtual ~Block() = default;
  // hidden: [rows, hidden] → the same shape. tape: filled where a backward will come; without one hidden is changed.
  virtual at::Tensor forward(tensor::Arithmetic& arithmetic, const Pass& pass, const at::Tensor& hidden,
                             Tape* tape) const = 0;
  // Returns the gradient of hidden.
  virtual at::Tensor backward(tensor::Arithmetic& arithmetic, const Pass& pass, const Tape& tape,
                              const at::Tensor& output_gradient, GradientSink& gradients) const = 0;
};

}  // namespace muster::model
