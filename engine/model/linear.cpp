// Note [Adapters]
// An adapter is two products of their own: t = scale · (A·x), then B·t, added to what the layer gives. Each is a chain
// as any product is, so that rows stay independent of each other and an adapter has the same bits wherever it runs. The
// scale is taken where the rows are narrowest.
#include "model/linear.hpp"

namespace muster::model {
namespace {

// What the adapter reads: the input, some of it left out in training.
at::Tensor adapter_input(tensor::DeviceOps& ops, const Pass& pass, const Adapter& adapter, const at::Tensor& input) {
  return pass.dropout ? ops.rows->drop(input, pass.dropout->of(adapter.down_id)) : input;
}

// [rows, rank]: nothing for rows that have another adapter.
at::Tensor narrow_rows(tensor::DeviceOps& ops, const Pass& pass, const Adapter& adapter, const at::Tensor& read) {
  at::Tensor narrow = ops.primitives->linear(adapter.down, {}, read).mul_(adapter.scale);
  if (!pass.without_adapter.empty())
    narrow.masked_fill_(pass.without_adapter[static_cast<std::size_t>(adapter.number)], 0);
  return narrow;
}

at::Tensor part_of(const Adapter& adapter, const at::Tensor& outputs) {
  return outputs.narrow(1, adapter.first_output, adapter.outputs());
}

// The gradient of A·x: [rows, rank].
at::Tensor narrow_gradient(tensor::DeviceOps& ops, const Adapter& adapter, const at::Tensor& output_gradient) {
  return ops.primitives->linear_input_gradient(adapter.up, part_of(adapter, output_gradient)).mul_(adapter.scale);
}

}  // namespace

at::Tensor Linear::forward(tensor::DeviceOps& ops, const Pass& pass, const at::Tensor& input) const {
  at::Tensor output = ops.primitives->linear(weight, bias, input);
  for (const Adapter& adapter : adapters) {
    const at::Tensor narrow = narrow_rows(ops, pass, adapter, adapter_input(ops, pass, adapter, input));
    part_of(adapter, output).add_(ops.primitives->linear(adapter.up, {}, narrow));
  }
  return output;
}

at::Tensor Linear::forward_add(tensor::DeviceOps& ops, const Pass& pass, const at::Tensor& input,
                               const at::Tensor& base, bool overwrites) const {
  at::Tensor sum = overwrites ? base : at::empty_like(base);
  if (adapters.empty())
    ops.primitives->linear_add(weight, bias, input, base, sum);
  else
    at::add_out(sum, base, forward(ops, pass, input));
  return sum;
}

at::Tensor Linear::forward_gated(tensor::DeviceOps& ops, spec::Activation activation, const at::Tensor& input) const {
  if (!adapters.empty()) return {};
  return ops.primitives->gated_linear(activation, weight, bias, input);
}

at::Tensor Linear::input_gradient(tensor::DeviceOps& ops, const Pass& pass, const at::Tensor& output_gradient) const {
  at::Tensor gradient = ops.primitives->linear_input_gradient(weight, output_gradient);
  for (const Adapter& adapter : adapters) {
    const at::Tensor through =
        ops.primitives->linear_input_gradient(adapter.down, narrow_gradient(ops, adapter, output_gradient));
    gradient.add_(pass.dropout ? ops.rows->drop(through, pass.dropout->of(adapter.down_id)) : through);
  }
  return gradient;
}

void Linear::add_gradients(tensor::DeviceOps& ops, const Pass& pass, const at::Tensor& input,
                           const at::Tensor& output_gradient, ParameterAccess& access) const {
  tensor::TrainingOps& training = *ops.training;
  if (const auto sum = access.gradient(weight_id); sum.wanted())
    training.add_product(sum, output_gradient, input, pass.sequence_rows);
  if (bias.defined())
    if (const auto sum = access.gradient(bias_id); sum.wanted()) training.add_rows(sum, output_gradient);
  for (const Adapter& adapter : adapters) {
    const auto down_sum = access.gradient(adapter.down_id), up_sum = access.gradient(adapter.up_id);
    if (!down_sum.wanted() && !up_sum.wanted()) continue;
    const at::Tensor read = adapter_input(ops, pass, adapter, input);
    const at::Tensor from = part_of(adapter, output_gradient).contiguous();
    if (up_sum.wanted()) training.add_product(up_sum, from, narrow_rows(ops, pass, adapter, read), pass.sequence_rows);
    if (down_sum.wanted())
      training.add_product(down_sum, narrow_gradient(ops, adapter, output_gradient), read, pass.sequence_rows);
  }
}

}  // namespace muster::model
