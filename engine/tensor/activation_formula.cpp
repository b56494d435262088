#include "tensor/activation_formula.hpp"

#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <numbers>

namespace muster::tensor {
namespace {

using spec::Activation;

// x: float32.
at::Tensor formula(Activation activation, const at::Tensor& x) {
  switch (activation) {
    case Activation::silu:
    case Activation::swish:
      return at::silu(x);
    case Activation::gelu:
    case Activation::gelu_python:
      return at::gelu(x);
    case Activation::gelu_10:
      return at::clamp(at::gelu(x), -10, 10);
    case Activation::gelu_fast:
    case Activation::gelu_new:
    case Activation::gelu_pytorch_tanh:
    case Activation::gelu_python_tanh:
    case Activation::gelu_accurate:
      return at::gelu(x, "tanh");
    case Activation::quick_gelu:
      return x * at::sigmoid(1.702 * x);
    case Activation::hardswish:
      return at::hardswish(x);
    case Activation::laplace:
      return 0.5 * (1.0 + at::erf((x - 0.707107) / (0.282095 * std::numbers::sqrt2)));
    case Activation::leaky_relu:
      return at::leaky_relu(x);
    case Activation::linear:
      return x * 1.0;
    case Activation::mish:
      return at::mish(x);
    case Activation::relu:
      return at::relu(x);
    case Activation::relu2:
      return at::square(at::relu(x));
    case Activation::relu6:
      return at::clamp(x, 0, 6);
    case Activation::sigmoid:
      return at::sigmoid(x);
    case Activation::sqrtsoftplus:
      return at::sqrt(at::softplus(x));
    case Activation::tanh:
      return at::tanh(x);
  }
  return {};
}

}  // namespace

at::Tensor activation_formula(Activation activation, const at::Tensor& input) {
  return formula(activation, input.to(at::kFloat)).to(input.scalar_type());
}

at::Tensor activation_slope_formula(Activation activation, const at::Tensor& input, const at::Tensor& gradient) {
  const at::AutoGradMode recording(true);
  const at::Tensor leaf = input.detach().to(at::kFloat).clone().requires_grad_();
  const auto found = torch::autograd::grad({formula(activation, leaf)}, {leaf}, {gradient.detach().to(at::kFloat)});
  return found[0].to(input.scalar_type());
}

}  // namespace muster::tensor
