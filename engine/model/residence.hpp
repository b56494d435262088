// Where the parameters of a model and their gradients live while it is trained. A strategy of parallelism is one of
// these; the model and the loop do not know which.
#pragma once

#include "model/parameter.hpp"
#include "tensor/gradient_sum.hpp"

namespace muster::model {

class Residence {
 public:
  virtual ~Residence() = default;
  // The unit's parameters are read from now on, until leave().
  virtual void enter(UnitId unit) = 0;
  virtual void leave(UnitId unit) = 0;
  // Where a backward pass adds a parameter's gradient. Not wanted: a parameter that is not trained.
  virtual tensor::GradientSum gradient(ParameterId parameter) = 0;
  // This pass adds nothing more to the gradients of the unit.
  virtual void gradients_complete(UnitId unit) = 0;
};

}  // namespace muster::model
