// What a step of the optimizer takes.
#pragma once

#include <initializer_list>
#include <stdexcept>

#include "tensor/gradient_sum.hpp"

namespace muster::tensor {

// All float32, or all bfloat16 including the sum. Undefined tensors are not checked.
inline void check_state(const at::Tensor& parameter, const GradientSum& gradient,
                        std::initializer_list<at::Tensor> beside) {
  const at::ScalarType type = parameter.scalar_type();
  const bool narrow = type == at::kBFloat16;
  bool agree = (narrow || type == at::kFloat) && (gradient.values.scalar_type() == at::kBFloat16) == narrow;
  for (const at::Tensor& values : beside) agree = agree && (!values.defined() || values.scalar_type() == type);
  if (!agree) throw std::invalid_argument("an optimizer's state of several types");
}

}  // namespace muster::tensor
