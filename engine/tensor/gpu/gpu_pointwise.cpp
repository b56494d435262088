#include <torch/csrc/autograd/autograd.h>

#include "tensor/activation_formula.hpp"
#include "tensor/gpu/gpu_primitives.hpp"
#include "tensor/gpu/gpu_scalar.hpp"

namespace muster::tensor {
namespace {

class GpuPointwise final : public Pointwise {
 public:
  at::Tensor rms_norm(const at::Tensor& input, const at::Tensor& weight, double epsilon) override {
    const at::Tensor rows = input.contiguous();
    at::Tensor output = at::empty_like(rows);
    check_launch(cuda::rms_norm(current_stream(rows), scalar_of(rows), rows.const_data_ptr(), weight.const_data_ptr(),
                                static_cast<float>(epsilon), rows.size(0), rows.size(1), output.mutable_data_ptr()));
    return output;
  }

  NormGradient rms_norm_gradient(const at::Tensor& input, const at::Tensor& weight, double epsilon,
                                 const at::Tensor& output_gradient) override {
    const at::Tensor x = input.to(at::kFloat), gradient = output_gradient.to(at::kFloat);
    const at::Tensor scale = at::rsqrt(x.square().mean(-1, true) + epsilon);
    const at::Tensor normed = x * scale;
    const at::Tensor inner = gradient * weight.to(at::kFloat);
    const at::Tensor along = (inner * normed).mean(-1, true);
    return {((inner - normed * along) * scale).to(input.scalar_type()), (gradient * normed).sum(0), {}};
  }

  at::Tensor layer_norm(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                        double epsilon) override {
    const at::Tensor rows = input.contiguous();
    at::Tensor output = at::empty_like(rows);
    check_launch(cuda::layer_norm(current_stream(rows), scalar_of(rows), rows.const_data_ptr(), weight.const_data_ptr(),
                                  bias.const_data_ptr(), static_cast<float>(epsilon), rows.size(0), rows.size(1),
                                  output.mutable_data_ptr()));
    return output;
  }

  NormGradient layer_norm_gradient(const at::Tensor& input, const at::Tensor& weight, double epsilon,
                                   const at::Tensor& output_gradient) override {
    const at::Tensor x = input.to(at::kFloat), gradient = output_gradient.to(at::kFloat);
    const at::Tensor apart = x - x.mean(-1, true);
    const at::Tensor scale = at::rsqrt(apart.square().mean(-1, true) + epsilon);
    const at::Tensor normed = apart * scale;
    const at::Tensor inner = gradient * weight.to(at::kFloat);
    const at::Tensor along = (inner * normed).mean(-1, true);
    return {((inner - inner.mean(-1, true) - normed * along) * scale).to(input.scalar_type()),
            (gradient * normed).sum(0), gradient.sum(0)};
  }

  at::Tensor rotate(const at::Tensor& input, const at::Tensor& cosines, const at::Tensor& sines) override {
    const std::int64_t half = cosines.size(1);
    const at::Tensor pairs = input.view({input.size(0), -1, 2, half});  // [rows, heads, 2, half]
    const at::Tensor first = pairs.select(2, 0), second = pairs.select(2, 1);
    const auto type = input.scalar_type();
    const at::Tensor cosine = cosines.to(type).unsqueeze(1), sine = sines.to(type).unsqueeze(1);
    return at::stack({first * cosine - second * sine, second * cosine + first * sine}, 2).view(input.sizes());
  }

  HeadRows split_heads(const HeadSplit& split, const at::Tensor& joined, const at::Tensor& slots,
                       const LayerCache& cache) override {
    const AttentionShape& shape = split.shape;
    if (shape.head_size % 2 != 0 || shape.head_size > 256)
      throw std::runtime_error("heads of " + std::to_string(shape.head_size) +
                               " elements: GPUs compute even numbers up to 256; use --device cpu");
    const std::int64_t rows = joined.size(0), kv_width = shape.kv_heads * shape.head_size;
    HeadRows heads{at::empty({rows, shape.heads * shape.head_size}, joined.options()),
                   at::empty({rows, kv_width}, joined.options()), at::empty({rows, kv_width}, joined.options())};
    const auto data = [](const at::Tensor& tensor) { return tensor.defined() ? tensor.mutable_data_ptr() : nullptr; };
    cuda::HeadSplit parts;
    parts.joined = joined.const_data_ptr();
    parts.query_norm = data(split.query_norm);
    parts.key_norm = data(split.key_norm);
    parts.epsilon = static_cast<float>(split.epsilon);
    parts.cosines = static_cast<const float*>(data(split.cosines));
    parts.sines = static_cast<const float*>(data(split.sines));
    parts.queries = data(heads.queries);
    parts.keys = data(heads.keys);
    parts.values = data(heads.values);
    parts.cached_keys = data(cache.keys);
    parts.cached_values = data(cache.values);
    if (cache.keys.defined()) parts.slots = slots.const_data_ptr<std::int64_t>();
    check_launch(cuda::split_heads(current_stream(joined), scalar_of(joined),
                                   {shape.heads, shape.kv_heads, shape.head_size, 0, 1}, parts, rows));
    return heads;
  }

  at::Tensor activate(spec::Activation activation, const at::Tensor& gate, const at::Tensor& up) override {
    if (activation == spec::Activation::silu && up.defined() && gate.stride(1) == 1 && up.stride(1) == 1 &&
        gate.stride(0) == up.stride(0)) {
      at::Tensor output = at::empty(gate.sizes(), gate.options());
      check_launch(cuda::gated_silu(current_stream(gate), scalar_of(gate), gate.const_data_ptr(), up.const_data_ptr(),
                                    gate.stride(0), gate.size(0), gate.size(1), output.mutable_data_ptr()));
      return output;
    }
    const at::Tensor activated = activation_formula(activation, gate);
    return up.defined() ? activated * up : activated;
  }

  GatedGradient activate_gradient(spec::Activation activation, const at::Tensor& gate, const at::Tensor& up,
                                  const at::Tensor& output_gradient) override {
    if (!up.defined()) return {activation_slope_formula(activation, gate, output_gradient), {}};
    return {activation_slope_formula(activation, gate, output_gradient * up),
            output_gradient * activation_formula(activation, gate)};
  }
};

}  // namespace

std::unique_ptr<Pointwise> make_gpu_pointwise() { return std::make_unique<GpuPointwise>(); }

}  // namespace muster::tensor
