// What a step of the optimizer takes.
#pragma once

#include <initializer_list>
#include <stdexcept>

#include "tensor/training_ops.hpp"

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

// Codes beside all elements of the parameter, and a scale for each block of them.
inline void check_coded(const at::Tensor& parameter, std::initializer_list<CodedMoment> moments) {
  const std::int64_t count = parameter.numel(), blocks = (count + coded_moment_block - 1) / coded_moment_block;
  for (const CodedMoment& moment : moments)
    if (moment.codes.scalar_type() != at::kByte || moment.scales.scalar_type() != at::kFloat ||
        moment.codes.numel() != count || moment.scales.numel() != blocks)
      throw std::invalid_argument("a moment in 8 bits that is not of its parameter");
}

}  // namespace muster::tensor
