#include <cstring>
#include <stdexcept>

#include "kernels/activation.hpp"
#include "kernels/normalize.hpp"
#include "kernels/rotate.hpp"
#include "tensor/cpu_primitives.hpp"
#include "tensor/cpu_scalar.hpp"
#include "tensor/cpu_sum.hpp"

namespace muster::tensor {
namespace {

kernels::Activation kernel_activation(spec::Activation activation) {
  using From = spec::Activation;
  using To = kernels::Activation;
  switch (activation) {
    case From::silu:
    case From::swish:
      return To::silu;
    case From::gelu:
    case From::gelu_python:
      return To::gelu;
    case From::gelu_10:
      return To::gelu_clipped;
    case From::gelu_fast:
    case From::gelu_new:
    case From::gelu_pytorch_tanh:
    case From::gelu_python_tanh:
    case From::gelu_accurate:
      return To::gelu_tanh;
    case From::quick_gelu:
      return To::quick_gelu;
    case From::hardswish:
      return To::hardswish;
    case From::laplace:
      return To::laplace;
    case From::leaky_relu:
      return To::leaky_relu;
    case From::linear:
      return To::linear;
    case From::mish:
      return To::mish;
    case From::relu:
      return To::relu;
    case From::relu2:
      return To::relu_squared;
    case From::relu6:
      return To::relu6;
    case From::sigmoid:
      return To::sigmoid;
    case From::sqrtsoftplus:
      return To::sqrt_softplus;
    case From::tanh:
      return To::tanh;
  }
  throw std::invalid_argument("an activation without a kernel");
}

// Contiguous rows and what they are normalised with, kept alive together.
struct NormOperands {
  NormOperands(const at::Tensor& input, const at::Tensor& weight_given, const at::Tensor& bias_given, double epsilon,
               const at::Tensor& residual = {})
      : rows(input.contiguous()), weight(weight_given.to(at::kFloat)) {
    if (bias_given.defined()) bias = bias_given.to(at::kFloat);
    if (residual.defined()) added = residual.contiguous();
    normalization = {rows.const_data_ptr(),
                     scalar_of(rows),
                     rows.size(0),
                     rows.size(1),
                     weight.const_data_ptr<float>(),
                     bias.defined() ? bias.const_data_ptr<float>() : nullptr,
                     static_cast<float>(epsilon),
                     added.defined() ? added.const_data_ptr() : nullptr};
  }
  at::Tensor rows, weight, bias, added;
  kernels::Normalization normalization;
};

class CpuRowOps final : public RowOps {
 public:
  explicit CpuRowOps(std::shared_ptr<kernels::ThreadTeam> team) : team_(std::move(team)) {}

  at::Tensor rms_norm(const at::Tensor& input, const at::Tensor& weight, double epsilon) override {
    const NormOperands operands(input, weight, {}, epsilon);
    at::Tensor output = at::empty_like(operands.rows);
    kernels::rms_norm(*team_, operands.normalization, output.mutable_data_ptr());
    return output;
  }

  at::Tensor rms_norm_gradient(const at::Tensor& input, const at::Tensor& weight, double epsilon,
                               const at::Tensor& output_gradient, const GradientSum& weight_sum,
                               const at::Tensor& residual) override {
    const NormOperands operands(input, weight, {}, epsilon, residual);
    const at::Tensor from = output_gradient.contiguous();
    at::Tensor gradient = at::empty_like(operands.rows);
    kernels::rms_norm_gradient(*team_, operands.normalization, from.const_data_ptr(), gradient.mutable_data_ptr(),
                               kernel_sum(weight_sum));
    return gradient;
  }

  at::Tensor layer_norm(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                        double epsilon) override {
    const NormOperands operands(input, weight, bias, epsilon);
    at::Tensor output = at::empty_like(operands.rows);
    kernels::layer_norm(*team_, operands.normalization, output.mutable_data_ptr());
    return output;
  }

  at::Tensor layer_norm_gradient(const at::Tensor& input, const at::Tensor& weight, double epsilon,
                                 const at::Tensor& output_gradient, const GradientSum& weight_sum,
                                 const GradientSum& bias_sum, const at::Tensor& residual) override {
    const NormOperands operands(input, weight, {}, epsilon, residual);
    const at::Tensor from = output_gradient.contiguous();
    at::Tensor gradient = at::empty_like(operands.rows);
    kernels::layer_norm_gradient(*team_, operands.normalization, from.const_data_ptr(), gradient.mutable_data_ptr(),
                                 kernel_sum(weight_sum), kernel_sum(bias_sum));
    return gradient;
  }

  at::Tensor rotate(const at::Tensor& input, const at::Tensor& cosines, const at::Tensor& sines) override {
    at::Tensor turned = input.clone(at::MemoryFormat::Contiguous);
    const at::Tensor cosine = cosines.contiguous(), sine = sines.contiguous();
    const std::int64_t head_size = 2 * cosine.size(1);
    kernels::rotate(*team_, {turned.mutable_data_ptr(), scalar_of(turned), turned.size(0), turned.size(1) / head_size,
                             head_size, turned.size(1), cosine.const_data_ptr<float>(), sine.const_data_ptr<float>()});
    return turned;
  }

  // In place, also where rows lie apart.
  at::Tensor rotate_back(const at::Tensor& gradient, const at::Tensor& cosines, const at::Tensor& sines) override {
    if (gradient.stride(1) != 1) return rotate(gradient, cosines, -sines);
    const at::Tensor cosine = cosines.contiguous(), sine = sines.contiguous();
    const std::int64_t head_size = 2 * cosine.size(1);
    kernels::rotate_back(
        *team_, {gradient.mutable_data_ptr(), scalar_of(gradient), gradient.size(0), gradient.size(1) / head_size,
                 head_size, gradient.stride(0), cosine.const_data_ptr<float>(), sine.const_data_ptr<float>()});
    return gradient;
  }

  HeadRows split_heads(const HeadSplit& split, const at::Tensor& joined, const at::Tensor& slots,
                       const LayerCache& cache) override {
    const AttentionShape& shape = split.shape;
    const std::int64_t query_width = shape.heads * shape.head_size, kv_width = shape.kv_heads * shape.head_size;
    const auto part = [&](std::int64_t first, std::int64_t width) { return joined.narrow(1, first, width); };
    const HeadRows heads{turned(normed_heads(part(0, query_width), split.query_norm, split), split, true),
                         turned(normed_heads(part(query_width, kv_width), split.key_norm, split), split, true),
                         turned(part(query_width + kv_width, kv_width), split, false)};
    if (!cache.keys.defined()) return heads;
    const auto bytes = static_cast<std::size_t>(kv_width * joined.element_size());
    const auto* slot = slots.const_data_ptr<std::int64_t>();
    const auto store = [&](const at::Tensor& from, const at::Tensor& to) {
      for (std::int64_t row = 0; row < from.size(0); ++row)
        std::memcpy(static_cast<std::byte*>(to.mutable_data_ptr()) + static_cast<std::size_t>(slot[row]) * bytes,
                    static_cast<const std::byte*>(from.const_data_ptr()) + static_cast<std::size_t>(row) * bytes,
                    bytes);
    };
    store(heads.keys, cache.keys);
    store(heads.values, cache.values);
    return heads;
  }

  at::Tensor activate(spec::Activation activation, const at::Tensor& gate, const at::Tensor& up) override {
    const kernels::Activation kind = kernel_activation(activation);
    if (up.defined() && are_halves(gate, up)) {
      at::Tensor output = at::empty(gate.sizes(), gate.options());
      kernels::gated_activation(*team_, kind, gated(gate, up), scalar_of(gate), output.mutable_data_ptr());
      return output;
    }
    const at::Tensor from = gate.contiguous();
    at::Tensor output = at::empty_like(from);
    if (!up.defined()) {
      kernels::activate(*team_, kind, from.const_data_ptr(), scalar_of(from), from.numel(), output.mutable_data_ptr());
      return output;
    }
    const at::Tensor factor = up.contiguous();
    kernels::gated_activation(*team_, kind, gated(from, factor), scalar_of(from), output.mutable_data_ptr());
    return output;
  }

  GatedGradient activate_gradient(spec::Activation activation, const at::Tensor& gate, const at::Tensor& up,
                                  const at::Tensor& output_gradient) override {
    const kernels::Activation kind = kernel_activation(activation);
    const at::Tensor gradient = output_gradient.contiguous();
    if (up.defined() && are_halves(gate, up) && gate.stride(0) == 2 * gate.size(1)) {
      const std::int64_t width = gate.size(1);
      const at::Tensor both = at::empty({gate.size(0), 2 * width}, gate.options());
      const GatedGradient halves{both.narrow(1, 0, width), both.narrow(1, width, width), gradient};
      kernels::gated_activation_gradient(*team_, kind, gated(gate, up), gradient.const_data_ptr(), scalar_of(gate),
                                         halves.gate.mutable_data_ptr(), halves.up.mutable_data_ptr());
      kernels::gated_activation(*team_, kind, gated(gate, up), scalar_of(gate), gradient.mutable_data_ptr());
      return halves;
    }
    const at::Tensor from = gate.contiguous();
    GatedGradient found{at::empty_like(from), {}, gradient};
    if (!up.defined()) {
      kernels::activate_gradient(*team_, kind, from.const_data_ptr(), gradient.const_data_ptr(), scalar_of(from),
                                 from.numel(), found.gate.mutable_data_ptr());
      kernels::activate(*team_, kind, from.const_data_ptr(), scalar_of(from), from.numel(),
                        gradient.mutable_data_ptr());
      return found;
    }
    const at::Tensor factor = up.contiguous();
    found.up = at::empty_like(factor);
    kernels::gated_activation_gradient(*team_, kind, gated(from, factor), gradient.const_data_ptr(), scalar_of(from),
                                       found.gate.mutable_data_ptr(), found.up.mutable_data_ptr());
    kernels::gated_activation(*team_, kind, gated(from, factor), scalar_of(from), gradient.mutable_data_ptr());
    return found;
  }

  at::Tensor drop(const at::Tensor& input, const Dropout& dropout) override {
    const at::Tensor rows = input.contiguous(), keys = dropout.row_keys.contiguous();
    at::Tensor kept = at::empty_like(rows);
    kernels::with_element(scalar_of(rows), [&]<class Element>(Element) {
      const auto* from = static_cast<const Element*>(rows.const_data_ptr());
      auto* to = static_cast<Element*>(kept.mutable_data_ptr());
      drop_elements(from, keys.const_data_ptr<std::int64_t>(), dropout, rows.size(0), rows.size(1), to);
    });
    return kept;
  }

 private:
  template <class Element>
  void drop_elements(const Element* from, const std::int64_t* keys, const Dropout& dropout, std::int64_t rows,
                     std::int64_t width, Element* to) {
    Element factor;  // as the rows' type has it
    kernels::narrow(dropout.factor(), factor);
    const float scale = kernels::widen(factor);
    const auto limit = static_cast<std::uint64_t>(dropout.limit());
    team_->split(rows, 8, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        for (std::int64_t column = 0; column < width; ++column) {
          const bool stays = Dropout::draw(static_cast<std::uint64_t>(keys[row]), dropout.salt, column) >= limit;
          const std::int64_t at = row * width + column;
          kernels::narrow(kernels::widen(from[at]) * (stays ? scale : 0.0F), to[at]);
        }
    });
  }

  // Halves of one matrix stay where they are.
  static bool are_halves(const at::Tensor& gate, const at::Tensor& up) {
    return gate.dim() == 2 && gate.stride(1) == 1 && up.stride(1) == 1 && gate.stride(0) == up.stride(0);
  }
  static kernels::Gated gated(const at::Tensor& gate, const at::Tensor& up) {
    return {gate.const_data_ptr(), up.const_data_ptr(), gate.size(0), gate.size(1), gate.stride(0)};
  }
  at::Tensor normed_heads(const at::Tensor& heads, const at::Tensor& weight, const HeadSplit& split) {
    if (!weight.defined()) return heads;
    return rms_norm(heads.reshape({-1, split.shape.head_size}), weight, split.epsilon).view(heads.sizes());
  }
  // Brings together heads whose rows lie apart, rotating them on the way where that is wanted.
  at::Tensor turned(const at::Tensor& heads, const HeadSplit& split, bool wanted) {
    at::Tensor output = at::empty(heads.sizes(), heads.options());
    kernels::Rotation rotation{
        output.mutable_data_ptr(), scalar_of(heads), heads.size(0), heads.size(1) / split.shape.head_size,
        split.shape.head_size,     heads.size(1)};
    if (wanted && split.cosines.defined()) {
      rotation.cosines = split.cosines.const_data_ptr<float>();
      rotation.sines = split.sines.const_data_ptr<float>();
    }
    rotation.source = heads.const_data_ptr();
    rotation.source_stride = heads.stride(0);
    kernels::rotate(*team_, rotation);
    return output;
  }

  std::shared_ptr<kernels::ThreadTeam> team_;
};

}  // namespace

std::unique_ptr<RowOps> make_cpu_row_ops(std::shared_ptr<kernels::ThreadTeam> team) {
  return std::make_unique<CpuRowOps>(std::move(team));
}

}  // namespace muster::tensor
