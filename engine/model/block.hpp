// One transformer block. Forward and backward are calls of their own, so that recomputing, sharding and pipelining have
// one seam: a block and the values that go into it.
#pragma once

#include <memory>
#include <vector>

#include "model/pass.hpp"
#include "model/linear.hpp"
#include "model/parameter_access.hpp"
#include "tensor/device_ops.hpp"

namespace muster::model {

// What a block's backward needs of its forward.
struct Tape {
  std::vector<at::Tensor> tensors;
  std::vector<NarrowRows> narrow;  // of each of its linear layers
};

class Block {
 public:
  virtual ~Block() = default;
  // hidden: [rows, hidden] → the same shape. tape: filled where a backward will come; without one hidden is changed.
  virtual at::Tensor forward(tensor::DeviceOps& ops, const Pass& pass, const at::Tensor& hidden,
                             Tape* tape) const = 0;
  // Lets go of what restore() computes again without a product.
  virtual void thin(Tape& tape) const = 0;
  virtual void restore(tensor::DeviceOps& ops, const Pass& pass, Tape& tape) const = 0;
  // Needs a tape that holds everything. Returns the gradient of hidden.
  virtual at::Tensor backward(tensor::DeviceOps& ops, const Pass& pass, const Tape& tape,
                              const at::Tensor& output_gradient, ParameterAccess& access) const = 0;
};

}  // namespace muster::model
