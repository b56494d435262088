#include "tensor/activation_formula.hpp"
#include "tensor/gpu/gpu_primitives.hpp"
#include "tensor/gpu/gpu_scalar.hpp"
#include "tensor/gpu/gpu_sum.hpp"

namespace muster::tensor {
namespace {

class GpuRowOps final : public RowOps {
 public:
  at::Tensor rms_norm(const at::Tensor& input, const at::Tensor& weight, double epsilon) override {
    const at::Tensor rows = input.contiguous();
    at::Tensor output = at::empty_like(rows);
    check_launch(cuda::rms_norm(current_stream(rows), scalar_of(rows), rows.const_data_ptr(), weight.const_data_ptr(),
                                static_cast<float>(epsilon), rows.size(0), rows.size(1), output.mutable_data_ptr()));
    return output;
  }

  at::Tensor rms_norm_gradient(const at::Tensor& input, const at::Tensor& weight, double epsilon,
                               const at::Tensor& output_gradient, const GradientSum& weight_sum,
                               const at::Tensor& residual) override {
    return norm_gradient(input, weight, epsilon, output_gradient, false, weight_sum, {}, residual);
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

  at::Tensor layer_norm_gradient(const at::Tensor& input, const at::Tensor& weight, double epsilon,
                                 const at::Tensor& output_gradient, const GradientSum& weight_sum,
                                 const GradientSum& bias_sum, const at::Tensor& residual) override {
    return norm_gradient(input, weight, epsilon, output_gradient, true, weight_sum, bias_sum, residual);
  }

  at::Tensor rotate(const at::Tensor& input, const at::Tensor& cosines, const at::Tensor& sines) override {
    const at::Tensor rows = input.contiguous(), cosine = cosines.contiguous(), sine = sines.contiguous();
    const std::int64_t head_size = 2 * cosine.size(1);
    at::Tensor turned = at::empty_like(rows);
    check_launch(cuda::rotate(current_stream(rows), scalar_of(rows), rows.const_data_ptr(),
                              cosine.const_data_ptr<float>(), sine.const_data_ptr<float>(), rows.size(0),
                              rows.size(1) / head_size, head_size, turned.mutable_data_ptr()));
    return turned;
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

  at::Tensor join_gradients(const HeadSplit& split, const AttentionGradient& heads) override {
    const at::Tensor queries = heads.queries.contiguous(), keys = heads.keys.contiguous();
    const at::Tensor values = heads.values.contiguous();
    const at::Tensor cosines = split.cosines.contiguous(), sines = split.sines.contiguous();
    const std::int64_t rows = queries.size(0);
    const AttentionShape& given = split.shape;
    const cuda::AttentionShape shape{given.heads, given.kv_heads, given.head_size, 0, 1};
    bool aligned = true;
    for (const at::Tensor& tensor : {queries, keys, values, cosines, sines})
      aligned = aligned && reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % 16 == 0;
    if (!aligned || !cuda::has_joined_gradients(scalar_of(queries), shape, rows))
      return RowOps::join_gradients(split, heads);
    const at::Tensor joined =
        at::empty({rows, (given.heads + 2 * given.kv_heads) * given.head_size}, queries.options());
    const cuda::HeadGradients from{queries.const_data_ptr(), keys.const_data_ptr(), values.const_data_ptr(),
                                   cosines.const_data_ptr<float>(), sines.const_data_ptr<float>()};
    check_launch(
        cuda::join_gradients(current_stream(joined), scalar_of(joined), shape, from, rows, joined.mutable_data_ptr()));
    return joined;
  }

  at::Tensor activate(spec::Activation activation, const at::Tensor& gate, const at::Tensor& up) override {
    if (is_gated_silu(activation, gate, up)) {
      at::Tensor output = at::empty(gate.sizes(), gate.options());
      check_launch(cuda::gated_silu(current_stream(gate), scalar_of(gate), gate.const_data_ptr(), up.const_data_ptr(),
                                    gate.stride(0), gate.size(0), gate.size(1), output.mutable_data_ptr()));
      return output;
    }
    const at::Tensor activated = activation_formula(activation, gate);
    return up.defined() ? activated * up : activated;
  }

  at::Tensor drop(const at::Tensor& input, const Dropout& dropout) override {
    const at::Tensor rows = input.contiguous(), keys = dropout.row_keys.contiguous();
    at::Tensor kept = at::empty_like(rows);
    const cuda::DropRule rule{dropout.salt, static_cast<std::uint64_t>(dropout.limit()), dropout.factor()};
    check_launch(cuda::drop(current_stream(rows), scalar_of(rows), rows.const_data_ptr(),
                            keys.const_data_ptr<std::int64_t>(), rule, rows.size(0), rows.size(1),
                            kept.mutable_data_ptr()));
    return kept;
  }

  GatedGradient activate_gradient(spec::Activation activation, const at::Tensor& gate, const at::Tensor& up,
                                  const at::Tensor& output_gradient) override {
    if (is_gated_silu(activation, gate, up)) {
      const at::Tensor from = output_gradient.contiguous();
      const std::int64_t width = gate.size(1);
      const at::Tensor both = at::empty({gate.size(0), 2 * width}, gate.options());
      check_launch(cuda::gated_silu_gradient(current_stream(gate), scalar_of(gate), gate.const_data_ptr(),
                                             up.const_data_ptr(), gate.stride(0), gate.size(0), width,
                                             from.mutable_data_ptr(), both.mutable_data_ptr()));
      return {both.narrow(1, 0, width), both.narrow(1, width, width), from};
    }
    if (!up.defined())
      return {activation_slope_formula(activation, gate, output_gradient), {}, activation_formula(activation, gate)};
    const at::Tensor activated = activation_formula(activation, gate);
    return {activation_slope_formula(activation, gate, output_gradient * up), output_gradient * activated,
            activated * up};
  }

 private:
  // What muster's own kernels take.
  static bool is_gated_silu(spec::Activation activation, const at::Tensor& gate, const at::Tensor& up) {
    const bool is_silu = activation == spec::Activation::silu || activation == spec::Activation::swish;
    return is_silu && up.defined() && gate.dim() == 2 && gate.stride(1) == 1 && up.stride(1) == 1 &&
           gate.stride(0) == up.stride(0);
  }

  static at::Tensor norm_gradient(const at::Tensor& input, const at::Tensor& weight, double epsilon,
                                  const at::Tensor& output_gradient, bool centered, const GradientSum& weight_sum,
                                  const GradientSum& bias_sum, const at::Tensor& residual) {
    const at::Tensor added = residual.defined() ? residual.contiguous() : at::Tensor();
    const at::Tensor rows = input.contiguous(), from = output_gradient.contiguous();
    at::Tensor gradient = at::empty_like(rows), scratch;
    cuda::NormGradient job;
    job.input = rows.const_data_ptr();
    job.weight = weight.const_data_ptr();
    job.output_gradient = from.const_data_ptr();
    job.residual = added.defined() ? added.const_data_ptr() : nullptr;
    job.input_gradient = gradient.mutable_data_ptr();
    job.epsilon = static_cast<float>(epsilon);
    job.rows = rows.size(0);
    job.width = rows.size(1);
    job.centered = centered;
    job.weight_sum = kernel_sum(weight_sum);
    job.bias_sum = kernel_sum(bias_sum);
    if ((weight_sum.wanted() && !weight_sum.exact()) || (bias_sum.wanted() && !bias_sum.exact())) {
      scratch = at::empty({cuda::norm_gradient_scratch(job.rows, job.width)}, rows.options().dtype(at::kFloat));
      job.scratch = scratch.mutable_data_ptr<float>();
    }
    check_launch(cuda::norm_gradient(current_stream(rows), scalar_of(rows), job));
    return gradient;
  }
};

}  // namespace

std::unique_ptr<RowOps> make_gpu_row_ops() { return std::make_unique<GpuRowOps>(); }

}  // namespace muster::tensor
