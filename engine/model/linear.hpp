// A linear layer: one weight, perhaps a bias. Layers that read the same input are joined in one, so that it is read
// once.
#pragma once

#include "model/pass.hpp"
#include "model/parameter_access.hpp"
#include "tensor/device_ops.hpp"

namespace muster::model {

struct Linear {
  tensor::Weight weight;
  at::Tensor bias;  // undefined where there is none
  ParameterId weight_id{};
  ParameterId bias_id{};

  at::Tensor forward(tensor::Primitives& primitives, const at::Tensor& input) const {
    return primitives.linear(weight, bias, input);
  }
  // base + the output. overwrites: in the place of base.
  at::Tensor forward_add(tensor::Primitives& primitives, const at::Tensor& input, const at::Tensor& base,
                         bool overwrites) const {
    at::Tensor sum = overwrites ? base : at::empty_like(base);
    primitives.linear_add(weight, bias, input, base, sum);
    return sum;
  }
  at::Tensor input_gradient(tensor::Primitives& primitives, const at::Tensor& output_gradient) const {
    return primitives.linear_input_gradient(weight, output_gradient);
  }
  // Adds the gradients of weight and bias to their sums.
  void add_gradients(tensor::DeviceOps& ops, const Pass& pass, const at::Tensor& input,
                     const at::Tensor& output_gradient, ParameterAccess& access) const;
  // Both; returns the gradient of the input.
  at::Tensor backward(tensor::DeviceOps& ops, const Pass& pass, const at::Tensor& input,
                      const at::Tensor& output_gradient, ParameterAccess& access) const {
    add_gradients(ops, pass, input, output_gradient, access);
    return input_gradient(*ops.primitives, output_gradient);
  }
};

}  // namespace muster::model
