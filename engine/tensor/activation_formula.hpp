// Activations and their slopes as torch operations: for devices that have no kernel of their own for them, and as the
// reference for those that have.
#pragma once

#include "spec/model/activation.hpp"
#include "tensor/torch.hpp"

namespace muster::tensor {

// As transformers computes it, in the input's type.
at::Tensor activation_formula(spec::Activation activation, const at::Tensor& input);
// The derivative at input times gradient, of the input's type.
at::Tensor activation_slope_formula(spec::Activation activation, const at::Tensor& input, const at::Tensor& gradient);

}  // namespace muster::tensor
