// A linear layer: one weight, perhaps a bias, under the name a checkpoint has for them.
#pragma once

#include <string>

#include "model/gradients.hpp"
#include "tensor/primitives.hpp"

namespace muster::model {

struct Linear {
  std::string name;  // "model.layers.0.mlp.up_proj"
  tensor::Weight weight;
  at::Tensor bias;          // undefined where there is none
  bool transposed = false;  // the checkpoint has the weight as [inputs, outputs]

  at::Tensor forward(tensor::Primitives& primitives, const at::Tensor& input) const {
    return primitives.linear(weight, bias, input);
  }
  // Returns the input's gradient.
  at::Tensor backward(tensor::Primitives& primitives, const at::Tensor& input, const at::Tensor& output_gradient,
                      GradientSink& gradients) const;
};

}  // namespace muster::model
