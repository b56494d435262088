// The functions and slopes of activation.hpp on blocks of float32, for one kind of lanes.
#pragma once

#include "kernels/activation.hpp"
#include "kernels/lanes/lane_math.hpp"

namespace muster::kernels {

template <class L>
struct ActivationCurves {
  static L number(float x) { return L::broadcast(x); }

  static constexpr float root_half = 0.70710678118654752F;
  static constexpr float normal_peak = 0.39894228040143268F;  // 1 / √(2π)
  static constexpr float tanh_scale = 0.79788456080286536F;   // √(2/π)
  static constexpr float tanh_cubic = 0.044715F;
  static constexpr float laplace_mean = 0.707107F;
  static constexpr float laplace_width = 0.282095F;

  // Beyond ±limit slopes are constant; products like ∞ · 0 are kept away.
  static L limited(L x, float limit) { return L::maximum(number(-limit), L::minimum(number(limit), x)); }

  static L gelu(L x) { return x * normal_share(x * number(root_half)); }
  static L gelu_slope(L x) {
    const L near = limited(x, 40.0F);
    const L density = number(normal_peak) * exponential(number(-0.5F) * near * near);
    return L::fma(near, density, normal_share(near * number(root_half)));
  }

  static L gelu_clipped(L x) { return limited(gelu(x), 10.0F); }
  static L gelu_clipped_slope(L x) { return L::where_less(number(10.0F), gelu(x), number(0.0F), gelu_slope(x)); }

  // 1 + tanh(u) = 2 sigmoid(2u)
  static L tanh_share(L x) {
    const L inner = x * L::fma(x * x, number(tanh_cubic), number(1.0F));
    return sigmoid(number(2.0F * tanh_scale) * inner);
  }
  static L gelu_tanh(L x) { return x * tanh_share(x); }
  static L gelu_tanh_slope(L x) {
    const L near = limited(x, 40.0F);
    const L share = tanh_share(near);
    const L inner_slope = number(2.0F * tanh_scale) * L::fma(near * near, number(3.0F * tanh_cubic), number(1.0F));
    return L::fma(near * share * (number(1.0F) - share), inner_slope, share);
  }

  static L hardswish(L x) {
    return x * (L::minimum(number(6.0F), L::maximum(number(0.0F), x + number(3.0F))) / number(6.0F));
  }
  static L hardswish_slope(L x) {
    const L middle = x / number(3.0F) + number(0.5F);
    return L::where_less(number(-3.0F), x, L::where_less(x, number(3.0F), middle, number(1.0F)), number(0.0F));
  }

  static L laplace(L x) { return normal_share((x - number(laplace_mean)) / number(laplace_width) * number(root_half)); }
  static L laplace_slope(L x) {
    const L distance = limited((x - number(laplace_mean)) / number(laplace_width), 40.0F);
    return number(normal_peak / laplace_width) * exponential(number(-0.5F) * distance * distance);
  }

  static L leaky_relu(L x) { return L::where_less(number(0.0F), x, x, number(0.01F) * x); }
  static L leaky_relu_slope(L x) { return L::where_less(number(0.0F), x, number(1.0F), number(0.01F)); }

  static L linear(L x) { return x; }
  static L linear_slope(L) { return number(1.0F); }

  static L mish(L x) { return x * hyperbolic_tangent(softplus(x)); }
  static L mish_slope(L x) {
    const L near = limited(x, 100.0F);
    const L share = hyperbolic_tangent(softplus(near));
    return L::fma(near * sigmoid(near), number(1.0F) - share * share, share);
  }

  static L quick_gelu(L x) { return x * sigmoid(number(1.702F) * x); }
  static L quick_gelu_slope(L x) {
    const L near = limited(x, 100.0F);
    const L share = sigmoid(number(1.702F) * near);
    return L::fma(number(1.702F) * near * share, number(1.0F) - share, share);
  }

  static L relu(L x) { return L::maximum(number(0.0F), x); }
  static L relu_slope(L x) { return L::where_less(number(0.0F), x, number(1.0F), number(0.0F)); }

  static L relu_squared(L x) { return relu(x) * relu(x); }
  static L relu_squared_slope(L x) { return number(2.0F) * relu(x); }

  static L relu6(L x) { return L::minimum(number(6.0F), relu(x)); }
  static L relu6_slope(L x) { return L::where_less(x, number(6.0F), relu_slope(x), number(0.0F)); }

  static L logistic(L x) { return sigmoid(x); }
  static L logistic_slope(L x) { return sigmoid(x) * (number(1.0F) - sigmoid(x)); }

  static L silu(L x) { return x / (number(1.0F) + exponential(number(0.0F) - x)); }
  static L silu_slope(L x) {
    const L near = limited(x, 100.0F);
    const L share = sigmoid(near);
    return L::fma(near * share, number(1.0F) - share, share);
  }

  static L sqrt_softplus(L x) { return L::square_root(softplus(x)); }
  // Half of sigmoid / √softplus; far below zero both are e^x.
  static L sqrt_softplus_slope(L x) {
    const L near = L::maximum(number(-80.0F), x);
    return number(0.5F) * sigmoid(near) / L::square_root(softplus(near));
  }

  static L tangent(L x) { return hyperbolic_tangent(x); }
  static L tangent_slope(L x) { return number(1.0F) - hyperbolic_tangent(x) * hyperbolic_tangent(x); }
};

template <class L, L (*curve)(L)>
void apply_curve(float* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += 16) curve(L::load(values + i)).store(values + i);
}

struct ActivationFunctions {
  void (*value)(float* values, std::int64_t count);  // in place; count is rounded up to sixteen
  void (*slope)(float* values, std::int64_t count);
};

template <class L>
ActivationFunctions activation_functions(Activation activation) {
  using Curves = ActivationCurves<L>;
  switch (activation) {
    case Activation::gelu:
      return {&apply_curve<L, Curves::gelu>, &apply_curve<L, Curves::gelu_slope>};
    case Activation::gelu_clipped:
      return {&apply_curve<L, Curves::gelu_clipped>, &apply_curve<L, Curves::gelu_clipped_slope>};
    case Activation::gelu_tanh:
      return {&apply_curve<L, Curves::gelu_tanh>, &apply_curve<L, Curves::gelu_tanh_slope>};
    case Activation::hardswish:
      return {&apply_curve<L, Curves::hardswish>, &apply_curve<L, Curves::hardswish_slope>};
    case Activation::laplace:
      return {&apply_curve<L, Curves::laplace>, &apply_curve<L, Curves::laplace_slope>};
    case Activation::leaky_relu:
      return {&apply_curve<L, Curves::leaky_relu>, &apply_curve<L, Curves::leaky_relu_slope>};
    case Activation::linear:
      return {&apply_curve<L, Curves::linear>, &apply_curve<L, Curves::linear_slope>};
    case Activation::mish:
      return {&apply_curve<L, Curves::mish>, &apply_curve<L, Curves::mish_slope>};
    case Activation::quick_gelu:
      return {&apply_curve<L, Curves::quick_gelu>, &apply_curve<L, Curves::quick_gelu_slope>};
    case Activation::relu:
      return {&apply_curve<L, Curves::relu>, &apply_curve<L, Curves::relu_slope>};
    case Activation::relu_squared:
      return {&apply_curve<L, Curves::relu_squared>, &apply_curve<L, Curves::relu_squared_slope>};
    case Activation::relu6:
      return {&apply_curve<L, Curves::relu6>, &apply_curve<L, Curves::relu6_slope>};
    case Activation::sigmoid:
      return {&apply_curve<L, Curves::logistic>, &apply_curve<L, Curves::logistic_slope>};
    case Activation::silu:
      return {&apply_curve<L, Curves::silu>, &apply_curve<L, Curves::silu_slope>};
    case Activation::sqrt_softplus:
      return {&apply_curve<L, Curves::sqrt_softplus>, &apply_curve<L, Curves::sqrt_softplus_slope>};
    case Activation::tanh:
      return {&apply_curve<L, Curves::tangent>, &apply_curve<L, Curves::tangent_slope>};
  }
  return {&apply_curve<L, Curves::linear>, &apply_curve<L, Curves::linear_slope>};
}

}  // namespace muster::kernels
