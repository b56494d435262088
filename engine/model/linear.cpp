#include "model/linear.hpp"

namespace muster::model {

at::Tensor Linear::backward(tensor::Primitives& primitives, const at::Tensor& input, const at::Tensor& output_gradient,
                            GradientSink& gradients) const {
  tensor::LinearGradient gradient = primitives.linear_gradient(weight, bias.defined(), input, output_gradient);
  std::int64_t first = 0;
  for (const Part& part : parts) {
    const at::Tensor rows = gradient.weight.narrow(0, first, part.outputs);
    gradients.add(part.name + ".weight", transposed ? rows.t() : rows);
    if (bias.defined()) gradients.add(part.name + ".bias", gradient.bias.narrow(0, first, part.outputs));
    first += part.outputs;
  }
  return std::move(gradient.input);
}

}  // namespace muster::model
