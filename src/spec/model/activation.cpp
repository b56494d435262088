#include "spec/model/activation.hpp"

#include <algorithm>
#include <array>

namespace muster::spec {
namespace {

struct Row {
  Activation activation;
  std::string_view name;
  std::string_view class_name;
};

constexpr std::array rows{
    Row{Activation::gelu, "gelu", "GELUActivation"},
    Row{Activation::gelu_10, "gelu_10", "ClippedGELUActivation"},
    Row{Activation::gelu_fast, "gelu_fast", "FastGELUActivation"},
    Row{Activation::gelu_new, "gelu_new", "NewGELUActivation"},
    Row{Activation::gelu_python, "gelu_python", "GELUActivation"},
    Row{Activation::gelu_pytorch_tanh, "gelu_pytorch_tanh", "GELUTanh"},
    Row{Activation::gelu_python_tanh, "gelu_python_tanh", "GELUTanh"},
    Row{Activation::gelu_accurate, "gelu_accurate", "AccurateGELUActivation"},
    Row{Activation::hardswish, "hardswish", "Hardswish"},
    Row{Activation::laplace, "laplace", "LaplaceActivation"},
    Row{Activation::leaky_relu, "leaky_relu", "LeakyReLU"},
    Row{Activation::linear, "linear", "LinearActivation"},
    Row{Activation::mish, "mish", "MishActivation"},
    Row{Activation::quick_gelu, "quick_gelu", "QuickGELUActivation"},
    Row{Activation::relu, "relu", "ReLU"},
    Row{Activation::relu2, "relu2", "ReLUSquaredActivation"},
    Row{Activation::relu6, "relu6", "ReLU6"},
    Row{Activation::sigmoid, "sigmoid", "Sigmoid"},
    Row{Activation::silu, "silu", "SiLUActivation"},
    Row{Activation::sqrtsoftplus, "sqrtsoftplus", "SqrtSoftplusActivation"},
    Row{Activation::swish, "swish", "SiLU"},
    Row{Activation::tanh, "tanh", "Tanh"},
};

const Row& row_of(Activation activation) { return *std::ranges::find(rows, activation, &Row::activation); }

}  // namespace

std::string_view name(Activation activation) { return row_of(activation).name; }
std::string_view class_name(Activation activation) { return row_of(activation).class_name; }

std::optional<Activation> activation_named(std::string_view word) {
  const auto row = std::ranges::find(rows, word, &Row::name);
  if (row == rows.end()) return std::nullopt;
  return row->activation;
}

std::vector<std::string> activation_names() {
  std::vector<std::string> names;
  for (const Row& row : rows) names.emplace_back(row.name);
  return names;
}

}  // namespace muster::spec
