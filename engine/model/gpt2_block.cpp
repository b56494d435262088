#include "model/gpt2_block.hpp"

#include "tensor/side_by_side.hpp"

namespace muster::model {
namespace {

using tensor::DeviceOps;

// What the tape holds, in order.
enum Saved : std::size_t {
  saved_input,
  saved_normed,
  saved_joined,
  saved_query,
  saved_key,
  saved_value,
  saved_attended,
  saved_log_sums,
  saved_middle,
  saved_middle_normed,
  saved_up,
  saved_count,
};

class Gpt2Block final : public Block {
 public:
  explicit Gpt2Block(Gpt2BlockParts parts) : parts_(std::move(parts)) {}

  at::Tensor forward(DeviceOps& ops, const Pass& pass, const at::Tensor& hidden, Tape* tape) const override;
  void thin(Tape& tape) const override;
  void restore(DeviceOps& ops, const Pass& pass, Tape& tape) const override;
  at::Tensor backward(DeviceOps& ops, const Pass& pass, const Tape& tape, const at::Tensor& output_gradient,
                      ParameterAccess& access) const override;

 private:
  at::Tensor norm(DeviceOps& ops, const Norm& norm, const at::Tensor& input) const {
    return ops.rows->layer_norm(input, norm.weight, norm.bias, parts_.epsilon);
  }
  at::Tensor norm_backward(DeviceOps& ops, const Norm& norm, const at::Tensor& input,
                           const at::Tensor& gradient, const at::Tensor& residual, ParameterAccess& access) const;

  Gpt2BlockParts parts_;
};

at::Tensor Gpt2Block::forward(DeviceOps& ops, const Pass& pass, const at::Tensor& hidden, Tape* tape) const {
  auto& primitives = *ops.primitives;
  const at::Tensor normed = norm(ops, parts_.attention_norm, hidden);
  const at::Tensor joined = parts_.joined.forward(primitives, normed);  // [rows, 3 * hidden]
  const tensor::LayerCache cache = pass.layer_cache(parts_.layer);
  const tensor::HeadRows heads =
      ops.rows->split_heads({.shape = parts_.shape}, joined, pass.tables.slots, cache);
  at::Tensor log_sums;
  const at::Tensor attended =
      primitives.attention(parts_.shape, pass.tables, heads, cache, tape == nullptr ? nullptr : &log_sums);
  const at::Tensor middle = parts_.output.forward_add(primitives, attended, hidden, tape == nullptr);

  const at::Tensor middle_normed = norm(ops, parts_.feed_forward_norm, middle);
  const at::Tensor up = parts_.up.forward(primitives, middle_normed);
  const at::Tensor activated = ops.rows->activate(parts_.activation, up, {});
  const at::Tensor output = parts_.down.forward_add(primitives, activated, middle, tape == nullptr);
  if (tape != nullptr)
    tape->tensors = {hidden,   normed,   joined, heads.queries, heads.keys, heads.values,
                     attended, log_sums, middle, middle_normed, up};
  return output;
}

void Gpt2Block::thin(Tape& tape) const {
  for (const Saved cheap : {saved_normed, saved_query, saved_key, saved_value, saved_middle_normed})
    tape.tensors[cheap].reset();
}

void Gpt2Block::restore(DeviceOps& ops, const Pass&, Tape& tape) const {
  auto& saved = tape.tensors;
  if (saved[saved_normed].defined()) return;
  saved[saved_normed] = norm(ops, parts_.attention_norm, saved[saved_input]);
  tensor::HeadRows heads = ops.rows->split_heads({.shape = parts_.shape}, saved[saved_joined], {}, {});
  saved[saved_query] = std::move(heads.queries);
  saved[saved_key] = std::move(heads.keys);
  saved[saved_value] = std::move(heads.values);
  saved[saved_middle_normed] = norm(ops, parts_.feed_forward_norm, saved[saved_middle]);
}

at::Tensor Gpt2Block::norm_backward(DeviceOps& ops, const Norm& norm, const at::Tensor& input,
                                    const at::Tensor& gradient, const at::Tensor& residual,
                                    ParameterAccess& access) const {
  return ops.rows->layer_norm_gradient(input, norm.weight, parts_.epsilon, gradient,
                                                   access.gradient(norm.weight_id), access.gradient(norm.bias_id),
                                                   residual);
}

at::Tensor Gpt2Block::backward(DeviceOps& ops, const Pass& pass, const Tape& tape,
                               const at::Tensor& output_gradient, ParameterAccess& access) const {
  TORCH_INTERNAL_ASSERT(tape.tensors.size() == saved_count);
  auto& primitives = *ops.primitives;
  const auto& saved = tape.tensors;
  tensor::GatedGradient up = ops.rows->activate_gradient(
      parts_.activation, saved[saved_up], {}, parts_.down.input_gradient(primitives, output_gradient));
  parts_.down.add_gradients(ops, pass, up.activated, output_gradient, access);
  up.activated.reset();
  const at::Tensor middle_normed = parts_.up.backward(ops, pass, saved[saved_middle_normed], up.gate, access);
  const at::Tensor middle = norm_backward(ops, parts_.feed_forward_norm, saved[saved_middle], middle_normed,
                                          output_gradient, access);

  const at::Tensor attended = parts_.output.backward(ops, pass, saved[saved_attended], middle, access);
  const tensor::AttentionGradient found = primitives.attention_gradient(
      parts_.shape, pass.tables, {saved[saved_query], saved[saved_key], saved[saved_value]}, saved[saved_attended],
      saved[saved_log_sums], attended);
  const at::Tensor joined = tensor::side_by_side({found.queries, found.keys, found.values});
  const at::Tensor normed = parts_.joined.backward(ops, pass, saved[saved_normed], joined, access);
  return norm_backward(ops, parts_.attention_norm, saved[saved_input], normed, middle, access);
}

}  // namespace

std::unique_ptr<Block> make_gpt2_block(Gpt2BlockParts parts) { return std::make_unique<Gpt2Block>(std::move(parts)); }

}  // namespace muster::model
