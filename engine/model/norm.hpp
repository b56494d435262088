// A norm: its numbers, and what is computed with them. One with a bias is a layer norm, one without an RMS norm.
#pragma once

#include "model/parameter_access.hpp"
#include "tensor/device_ops.hpp"

namespace muster::model {

struct Norm {
  at::Tensor weight;
  at::Tensor bias;  // undefined: an RMS norm
  ParameterId weight_id{};
  ParameterId bias_id{};

  at::Tensor forward(tensor::DeviceOps& ops, const at::Tensor& input, double epsilon) const {
    return bias.defined() ? ops.rows->layer_norm(input, weight, bias, epsilon)
                          : ops.rows->rms_norm(input, weight, epsilon);
  }
  // Adds the gradients of weight and bias to their sums; returns that of the input, and residual added to it where
  // there is one.
  at::Tensor backward(tensor::DeviceOps& ops, const at::Tensor& input, double epsilon, const at::Tensor& gradient,
                      const at::Tensor& residual, ParameterAccess& access) const {
    if (!bias.defined())
      return ops.rows->rms_norm_gradient(input, weight, epsilon, gradient, access.gradient(weight_id), residual);
    return ops.rows->layer_norm_gradient(input, weight, epsilon, gradient, access.gradient(weight_id),
                                         access.gradient(bias_id), residual);
  }
};

}  // namespace muster::model
