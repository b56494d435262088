// A linear layer: one weight, perhaps a bias. Layers that read the same input are joined in one, so that it is read
// once.
#pragma once

#include <string>
#include <vector>

#include "model/gradients.hpp"
#include "tensor/primitives.hpp"

namespace muster::model {

struct Linear {
  // A layer as a checkpoint has it: some consecutive outputs of the weight.
  struct Part {
    std::string name;  // "model.layers.0.mlp.up_proj"
    std::int64_t outputs = 0;
  };
  std::vector<Part> parts;
  tensor::Weight weight;
  at::Tensor bias;          // undefined where there is none
  bool transposed = false;  // the checkpoint has the weight as [inputs, outputs]

  at::Tensor forward(tensor::Primitives& primitives, const at::Tensor& input) const {
    return primitives.linear(weight, bias, input);
  }
  // Adds the output to sum.
  void forward_add(tensor::Primitives& primitives, const at::Tensor& input, at::Tensor& sum) const {
    primitives.linear_add(weight, bias, input, sum);
  }
  // Returns the input's gradient.
  at::Tensor backward(tensor::Primitives& primitives, const at::Tensor& input, const at::Tensor& output_gradient,
                      GradientSink& gradients) const;
};

}  // namespace muster::model
