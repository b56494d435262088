#include "model/linear.hpp"

namespace muster::model {

at::Tensor Linear::backward(tensor::Primitives& primitives, const at::Tensor& input, const at::Tensor& output_gradient,
                            GradientSink& gradients) const {
  tensor::LinearGradient gradient = primitives.linear_gradient(weight, bias.defined(), input, output_gradient);
  gradients.add(name + ".weight", transposed ? gradient.weight.t() : gradient.weight);
  if (bias.defined()) gradients.add(name + ".bias", gradient.bias);
  return std::move(gradient.input);
}

}  // namespace muster::model
