// Note [Adapters]
// An adapter is two products of their own: t = scale · (A·x), then B·t, added to what the layer gives. Each is a chain
// as any product is, so that rows stay independent of each other and an adapter has the same bits wherever it runs. The
// scale is taken where the rows are narrowest.
// DoRA scales W·x + B·t by f = magnitude / norm, where the layer has added W·x and its bias already: what is added is
// (f - 1)·W·x + f·B·t, nothing at all while a magnitude is its row's length and B is zero. Norms are computed anew when
// a parameter has changed. Dropout leaves out inputs of W·x here as well as those of A; layers that read the same input
// leave out the same ones, so that there is one such product.
#include "model/linear.hpp"

#include <algorithm>

#include "tensor/row_norms.hpp"

namespace muster::model {
namespace {

bool is_decomposed(const std::vector<Adapter>& adapters) {
  return std::ranges::any_of(adapters, [](const Adapter& adapter) { return adapter.decomposition.has_value(); });
}

// What the adapter reads: the input, some of it left out in training.
at::Tensor adapter_input(tensor::DeviceOps& ops, const Pass& pass, ParameterId salt, const at::Tensor& input) {
  return pass.dropout ? ops.rows->drop(input, pass.dropout->of(salt)) : input;
}

at::Tensor scaled(at::Tensor narrow, const Adapter& adapter) {
  if (adapter.scale != 1) narrow.mul_(adapter.scale);
  return narrow;
}

// [rows, rank]: nothing for rows that have another adapter.
at::Tensor narrow_rows(tensor::DeviceOps& ops, const Pass& pass, const Adapter& adapter, const at::Tensor& read,
                       NarrowRows* kept) {
  at::Tensor narrow = scaled(ops.primitives->linear(adapter.down, {}, read), adapter);
  if (!pass.without_adapter.empty())
    narrow.masked_fill_(pass.without_adapter[static_cast<std::size_t>(adapter.number)], 0);
  if (kept != nullptr) kept->push_back(narrow);
  return narrow;
}

at::Tensor part_of(const Adapter& adapter, const at::Tensor& outputs) {
  return outputs.narrow(1, adapter.first_output, adapter.outputs());
}

// A row of zeros gives nothing, whatever it is divided by: by 1.
const at::Tensor& norms_of(tensor::DeviceOps& ops, const tensor::Weight& weight, const Adapter& adapter) {
  const Decomposition& decomposition = *adapter.decomposition;
  Decomposition::Kept& kept = *decomposition.kept;
  if (kept.as_of != *decomposition.changes) {
    const tensor::AddedProduct added{adapter.up, adapter.down, adapter.scale};
    kept.norms = tensor::row_norms(*ops.primitives, weight, adapter.first_output, adapter.outputs(), added);
    kept.norms.masked_fill_(kept.norms.eq(0), 1);
    kept.as_of = *decomposition.changes;
  }
  return kept.norms;
}

// [outputs], float32
at::Tensor factors_of(tensor::DeviceOps& ops, const tensor::Weight& weight, const Adapter& adapter) {
  return adapter.decomposition->magnitude / norms_of(ops, weight, adapter);
}

// As Linear::input_gradient, of a layer whose adapters are decomposed, as all of a model are while it is trained.
at::Tensor decomposed_input_gradient(tensor::DeviceOps& ops, const Pass& pass, const Linear& layer,
                                     const OutputGradient& gradient) {
  // The gradient of W·x', which is scaled by f - 1 beside W·x, or with it where nothing is left out.
  const at::Tensor inner = pass.dropout ? at::zeros_like(gradient.rows) : gradient.rows.clone();
  for (const Adapter& adapter : layer.adapters) {
    const at::Tensor factors = factors_of(ops, layer.weight, adapter);
    part_of(adapter, inner).copy_(part_of(adapter, gradient.rows).mul(pass.dropout ? factors.sub(1) : factors));
  }
  at::Tensor through = ops.primitives->linear_input_gradient(layer.weight, inner);
  for (std::size_t i = 0; i < layer.adapters.size(); ++i)
    ops.primitives->add_input_gradient(layer.adapters[i].down, gradient.adapters[i].narrow, through);
  if (!pass.dropout) return through;
  const at::Tensor dropped = ops.rows->drop(through, pass.dropout->of(layer.adapters.front().down_id));
  return ops.primitives->linear_input_gradient(layer.weight, gradient.rows).add_(dropped);
}

// product: W·x' of all outputs. Added row by row: what changes with the magnitude is W·x' + B·t, over its norm.
void add_magnitude_gradient(tensor::DeviceOps& ops, const Linear& layer, const Adapter& adapter,
                            const at::Tensor& product, const at::Tensor& narrow, const at::Tensor& output_gradient,
                            const tensor::GradientSum& sum) {
  const at::Tensor given = part_of(adapter, product).to(at::kFloat).add(ops.primitives->linear(adapter.up, {}, narrow));
  ops.training->add_rows(
      sum, part_of(adapter, output_gradient).to(at::kFloat).mul(given).div_(norms_of(ops, layer.weight, adapter)));
}

}  // namespace

at::Tensor Linear::forward(tensor::DeviceOps& ops, const Pass& pass, const at::Tensor& input, NarrowRows* kept) const {
  at::Tensor output = ops.primitives->linear(weight, bias, input);
  if (is_decomposed(adapters))
    add_decomposed(ops, pass, input, output, kept);
  else
    add_adapters(ops, pass, input, output, kept);
  return output;
}

void Linear::add_adapters(tensor::DeviceOps& ops, const Pass& pass, const at::Tensor& input, at::Tensor& output,
                          NarrowRows* kept) const {
  for (const Adapter& adapter : adapters) {
    const at::Tensor narrow = narrow_rows(ops, pass, adapter, adapter_input(ops, pass, adapter.down_id, input), kept);
    at::Tensor part = part_of(adapter, output);
    ops.primitives->linear_add(adapter.up, {}, narrow, part, part);
  }
}

void Linear::add_decomposed(tensor::DeviceOps& ops, const Pass& pass, const at::Tensor& input, at::Tensor& output,
                            NarrowRows* kept) const {
  const at::Tensor read = adapter_input(ops, pass, adapters.front().down_id, input);
  at::Tensor product;  // W·x'
  if (pass.dropout)
    product = ops.primitives->linear(weight, {}, read);
  else if (bias.defined())
    product = output - bias;
  else
    product = pass.without_adapter.empty() ? output : output.clone();  // several adapters add to the same outputs
  for (const Adapter& adapter : adapters) {
    at::Tensor added = ops.primitives->linear(adapter.up, {}, narrow_rows(ops, pass, adapter, read, kept));
    if (adapter.decomposition) {
      const at::Tensor factors = factors_of(ops, weight, adapter);
      added = added.mul(factors).add_(part_of(adapter, product).mul(factors.sub(1)));
      if (!pass.without_adapter.empty())
        added.masked_fill_(pass.without_adapter[static_cast<std::size_t>(adapter.number)], 0);
    }
    part_of(adapter, output).add_(added);
  }
}

at::Tensor Linear::forward_add(tensor::DeviceOps& ops, const Pass& pass, const at::Tensor& input,
                               const at::Tensor& base, bool overwrites, NarrowRows* kept) const {
  at::Tensor sum = overwrites ? base : at::empty_like(base);
  if (is_decomposed(adapters)) {
    at::add_out(sum, base, forward(ops, pass, input, kept));
  } else {
    ops.primitives->linear_add(weight, bias, input, base, sum);
    add_adapters(ops, pass, input, sum, kept);
  }
  return sum;
}

at::Tensor Linear::forward_gated(tensor::DeviceOps& ops, spec::Activation activation, const at::Tensor& input) const {
  if (!adapters.empty()) return {};
  return ops.primitives->gated_linear(activation, weight, bias, input);
}

OutputGradient Linear::output_gradient(tensor::DeviceOps& ops, const at::Tensor& rows) const {
  OutputGradient gradient{rows, {}};
  for (const Adapter& adapter : adapters) {
    at::Tensor part = part_of(adapter, rows);
    if (adapter.decomposition) part = part.mul(factors_of(ops, weight, adapter)).to(rows.scalar_type());
    at::Tensor narrow = scaled(ops.primitives->linear_input_gradient(adapter.up, part), adapter);
    gradient.adapters.push_back({std::move(part), std::move(narrow)});
  }
  return gradient;
}

at::Tensor Linear::input_gradient(tensor::DeviceOps& ops, const Pass& pass, const OutputGradient& gradient) const {
  if (is_decomposed(adapters)) return decomposed_input_gradient(ops, pass, *this, gradient);
  at::Tensor sum = ops.primitives->linear_input_gradient(weight, gradient.rows);
  for (std::size_t i = 0; i < adapters.size(); ++i) {
    const tensor::Weight& down = adapters[i].down;
    const at::Tensor& narrow = gradient.adapters[i].narrow;
    if (pass.dropout) {
      const at::Tensor through = ops.primitives->linear_input_gradient(down, narrow);
      sum.add_(ops.rows->drop(through, pass.dropout->of(adapters[i].down_id)));
    } else {
      ops.primitives->add_input_gradient(down, narrow, sum);
    }
  }
  return sum;
}

void Linear::add_gradients(tensor::DeviceOps& ops, const Pass& pass, const at::Tensor& input, const NarrowRows& narrow,
                           const OutputGradient& gradient, ParameterAccess& access) const {
  tensor::TrainingOps& training = *ops.training;
  if (const auto sum = access.gradient(weight_id); sum.wanted())
    training.add_product(sum, gradient.rows, input, pass.sequence_rows);
  if (bias.defined())
    if (const auto sum = access.gradient(bias_id); sum.wanted()) training.add_rows(sum, gradient.rows);
  const bool decomposed = is_decomposed(adapters);
  at::Tensor product;  // W·x', once for all adapters
  for (std::size_t i = 0; i < adapters.size(); ++i) {
    const Adapter& adapter = adapters[i];
    const auto down_sum = access.gradient(adapter.down_id), up_sum = access.gradient(adapter.up_id);
    if (!down_sum.wanted() && !up_sum.wanted()) continue;
    const at::Tensor read =
        adapter_input(ops, pass, decomposed ? adapters.front().down_id : adapter.down_id, input);
    if (up_sum.wanted()) training.add_product(up_sum, gradient.adapters[i].part, narrow[i], pass.sequence_rows);
    if (down_sum.wanted()) training.add_product(down_sum, gradient.adapters[i].narrow, read, pass.sequence_rows);
    if (!decomposed) continue;
    if (!product.defined()) product = ops.primitives->linear(weight, {}, read);
    add_magnitude_gradient(ops, *this, adapter, product, narrow[i], gradient.rows,
                           access.gradient(adapter.decomposition->magnitude_id));
  }
}

}  // namespace muster::model
