// The function between the two halves of a feed-forward block.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::spec {

enum class Activation {
  gelu,
  gelu_10,
  gelu_fast,
  gelu_new,
  gelu_python,
  gelu_pytorch_tanh,
  gelu_python_tanh,
  gelu_accurate,
  hardswish,
  laplace,
  leaky_relu,
  linear,
  mish,
  quick_gelu,
  relu,
  relu2,
  relu6,
  sigmoid,
  silu,
  sqrtsoftplus,
  swish,
  tanh,
};

// "gelu_new": config.json's word.
std::string_view name(Activation activation);
// "NewGELUActivation": the class of its module in transformers.
std::string_view class_name(Activation activation);

// Those with parameters of their own (prelu, xielu) are not among them.
std::optional<Activation> activation_named(std::string_view word);
std::vector<std::string> activation_names();

}  // namespace muster::spec
