#include "model/rotary_block.hpp"

#include <array>

#include "tensor/side_by_side.hpp"

namespace muster::model {
namespace {

using tensor::DeviceOps;

// What the tape holds, in order.
enum Saved : std::size_t {
  saved_input,
  saved_normed,
  saved_joined,  // before norm and rotation
  saved_queries,
  saved_keys,
  saved_values,
  saved_attended,
  saved_log_sums,
  saved_middle,  // after attention
  saved_middle_normed,
  saved_gate_and_up,
  saved_count,
};

std::pair<at::Tensor, at::Tensor> halves(const at::Tensor& joined) {
  const std::int64_t width = joined.size(1) / 2;
  return {joined.narrow(1, 0, width), joined.narrow(1, width, width)};
}

class RotaryBlock final : public Block {
 public:
  explicit RotaryBlock(RotaryBlockParts parts) : parts_(std::move(parts)) {}

  at::Tensor forward(DeviceOps& ops, const Pass& pass, const at::Tensor& hidden, Tape* tape) const override;
  void thin(Tape& tape) const override;
  void restore(DeviceOps& ops, const Pass& pass, Tape& tape) const override;
  at::Tensor backward(DeviceOps& ops, const Pass& pass, const Tape& tape, const at::Tensor& output_gradient,
                      ParameterAccess& access) const override;

 private:
  tensor::HeadSplit head_split(const Pass& pass) const;
  at::Tensor norm_heads_backward(DeviceOps& ops, const std::optional<Norm>& norm, const at::Tensor& heads,
                                 const at::Tensor& gradient, ParameterAccess& access) const;
  at::Tensor norm_backward(DeviceOps& ops, const Norm& norm, const at::Tensor& input,
                           const at::Tensor& gradient, const at::Tensor& residual, ParameterAccess& access) const;
  // The gradient of the joined rows of queries, keys and values.
  at::Tensor heads_backward(DeviceOps& ops, const Pass& pass, const Tape& tape,
                            const tensor::AttentionGradient& found, ParameterAccess& access) const;
  // Includes the residual stream's own: gradient is that of the sum.
  at::Tensor attention_backward(DeviceOps& ops, const Pass& pass, const Tape& tape, const at::Tensor& gradient,
                                ParameterAccess& access) const;
  at::Tensor feed_forward_backward(DeviceOps& ops, const Pass& pass, const Tape& tape,
                                   const at::Tensor& gradient, ParameterAccess& access) const;

  RotaryBlockParts parts_;
};

tensor::HeadSplit RotaryBlock::head_split(const Pass& pass) const {
  tensor::HeadSplit split{parts_.shape, {}, {}, parts_.epsilon, pass.rotary.cosines, pass.rotary.sines};
  if (parts_.query_norm) split.query_norm = parts_.query_norm->weight;
  if (parts_.key_norm) split.key_norm = parts_.key_norm->weight;
  return split;
}

at::Tensor RotaryBlock::forward(DeviceOps& ops, const Pass& pass, const at::Tensor& hidden, Tape* tape) const {
  auto& primitives = *ops.primitives;
  auto& row_ops = *ops.rows;
  const tensor::LayerCache cache = pass.layer_cache(parts_.layer);
  const at::Tensor normed = row_ops.rms_norm(hidden, parts_.input_norm.weight, parts_.epsilon);
  const at::Tensor joined = parts_.joined.forward(primitives, normed);  // [rows, (heads + 2 kv_heads) * head_size]
  const tensor::HeadRows heads = row_ops.split_heads(head_split(pass), joined, pass.tables.slots, cache);
  at::Tensor log_sums;
  const at::Tensor attended =
      primitives.attention(parts_.shape, pass.tables, heads, cache, tape == nullptr ? nullptr : &log_sums);
  const at::Tensor middle = parts_.output.forward_add(primitives, attended, hidden, tape == nullptr);

  const at::Tensor middle_normed = row_ops.rms_norm(middle, parts_.output_norm.weight, parts_.epsilon);
  at::Tensor gate_and_up;  // [rows, 2 * intermediate]
  at::Tensor activated;
  if (tape == nullptr)
    activated =
        primitives.gated_linear(parts_.activation, parts_.gate_and_up.weight, parts_.gate_and_up.bias, middle_normed);
  if (!activated.defined()) {
    gate_and_up = parts_.gate_and_up.forward(primitives, middle_normed);
    const auto [gate, up] = halves(gate_and_up);
    activated = row_ops.activate(parts_.activation, gate, up);
  }
  const at::Tensor output = parts_.down.forward_add(primitives, activated, middle, tape == nullptr);
  if (tape != nullptr)
    tape->tensors = {hidden,   normed,   joined, heads.queries, heads.keys, heads.values,
                     attended, log_sums, middle, middle_normed, gate_and_up};
  return output;
}

void RotaryBlock::thin(Tape& tape) const {
  for (const Saved cheap : {saved_normed, saved_queries, saved_keys, saved_values, saved_middle_normed})
    tape.tensors[cheap].reset();
}

void RotaryBlock::restore(DeviceOps& ops, const Pass& pass, Tape& tape) const {
  auto& row_ops = *ops.rows;
  auto& saved = tape.tensors;
  if (saved[saved_normed].defined()) return;
  saved[saved_normed] = row_ops.rms_norm(saved[saved_input], parts_.input_norm.weight, parts_.epsilon);
  tensor::HeadRows heads = row_ops.split_heads(head_split(pass), saved[saved_joined], {}, {});
  saved[saved_queries] = std::move(heads.queries);
  saved[saved_keys] = std::move(heads.keys);
  saved[saved_values] = std::move(heads.values);
  saved[saved_middle_normed] = row_ops.rms_norm(saved[saved_middle], parts_.output_norm.weight, parts_.epsilon);
}

at::Tensor RotaryBlock::norm_backward(DeviceOps& ops, const Norm& norm, const at::Tensor& input,
                                      const at::Tensor& gradient, const at::Tensor& residual,
                                      ParameterAccess& access) const {
  return ops.rows->rms_norm_gradient(input, norm.weight, parts_.epsilon, gradient,
                                                 access.gradient(norm.weight_id), residual);
}

at::Tensor RotaryBlock::norm_heads_backward(DeviceOps& ops, const std::optional<Norm>& norm,
                                            const at::Tensor& heads, const at::Tensor& gradient,
                                            ParameterAccess& access) const {
  if (!norm) return gradient;
  const std::array<std::int64_t, 2> rows{-1, parts_.shape.head_size};
  return norm_backward(ops, *norm, heads.reshape(rows), gradient.reshape(rows), {}, access)
      .view(gradient.sizes());
}

at::Tensor RotaryBlock::feed_forward_backward(DeviceOps& ops, const Pass& pass, const Tape& tape,
                                              const at::Tensor& gradient, ParameterAccess& access) const {
  const auto& saved = tape.tensors;
  const auto [gate, up] = halves(saved[saved_gate_and_up]);
  tensor::GatedGradient gated = ops.rows->activate_gradient(
      parts_.activation, gate, up, parts_.down.input_gradient(*ops.primitives, gradient));
  parts_.down.add_gradients(ops, pass, gated.activated, gradient, access);
  gated.activated.reset();
  const at::Tensor normed = parts_.gate_and_up.backward(ops, pass, saved[saved_middle_normed],
                                                        tensor::side_by_side({gated.gate, gated.up}), access);
  return norm_backward(ops, parts_.output_norm, saved[saved_middle], normed, gradient, access);
}

at::Tensor RotaryBlock::heads_backward(DeviceOps& ops, const Pass& pass, const Tape& tape,
                                       const tensor::AttentionGradient& found, ParameterAccess& access) const {
  if (!parts_.query_norm && !parts_.key_norm) return ops.rows->join_gradients(head_split(pass), found);
  const tensor::AttentionShape& shape = parts_.shape;
  const at::Tensor& joined = tape.tensors[saved_joined];
  const std::int64_t query_width = shape.heads * shape.head_size, kv_width = shape.kv_heads * shape.head_size;
  const auto turn_back = [&](const at::Tensor& rotated) {
    return ops.rows->rotate_back(rotated, pass.rotary.cosines, pass.rotary.sines);
  };
  const at::Tensor query = norm_heads_backward(ops, parts_.query_norm, joined.narrow(1, 0, query_width),
                                               turn_back(found.queries), access);
  const at::Tensor key = norm_heads_backward(ops, parts_.key_norm, joined.narrow(1, query_width, kv_width),
                                             turn_back(found.keys), access);
  return tensor::side_by_side({query, key, found.values});
}

at::Tensor RotaryBlock::attention_backward(DeviceOps& ops, const Pass& pass, const Tape& tape,
                                           const at::Tensor& gradient, ParameterAccess& access) const {
  auto& primitives = *ops.primitives;
  const auto& saved = tape.tensors;
  const at::Tensor attended = parts_.output.backward(ops, pass, saved[saved_attended], gradient, access);
  const tensor::AttentionShape& shape = parts_.shape;
  const tensor::HeadRows heads{saved[saved_queries], saved[saved_keys], saved[saved_values]};
  const tensor::AttentionGradient found =
      primitives.attention_gradient(shape, pass.tables, heads, saved[saved_attended], saved[saved_log_sums], attended);
  const at::Tensor normed = parts_.joined.backward(ops, pass, saved[saved_normed],
                                                   heads_backward(ops, pass, tape, found, access), access);
  return norm_backward(ops, parts_.input_norm, saved[saved_input], normed, gradient, access);
}

at::Tensor RotaryBlock::backward(DeviceOps& ops, const Pass& pass, const Tape& tape,
                                 const at::Tensor& output_gradient, ParameterAccess& access) const {
  TORCH_INTERNAL_ASSERT(tape.tensors.size() == saved_count);
  const at::Tensor middle = feed_forward_backward(ops, pass, tape, output_gradient, access);
  return attention_backward(ops, pass, tape, middle, access);
}

}  // namespace

std::unique_ptr<Block> make_rotary_block(RotaryBlockParts parts) {
  return std::make_unique<RotaryBlock>(std::move(parts));
}

}  // namespace muster::model
