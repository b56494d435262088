// Where a backward pass leaves the gradients of parameters.
#pragma once

#include <string>

#include "tensor/torch.hpp"

namespace muster::model {

class GradientSink {
 public:
  virtual ~GradientSink() = default;
  // name: the parameter's, as in a checkpoint. gradient: float32, in the checkpoint's shape.
  virtual void add(const std::string& name, const at::Tensor& gradient) = 0;
};

}  // namespace muster::model
