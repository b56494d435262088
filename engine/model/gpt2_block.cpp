#include "model/gpt2_block.hpp"

namespace muster::model {
namespace {

using tensor::Arithmetic;

// What the tape holds, in order.
enum Saved : std::size_t {
  saved_input,
  saved_normed,
  saved_query,
  saved_key,
  saved_value,
  saved_attended,
  saved_log_sums,
  saved_middle,
  saved_middle_normed,
  saved_up,
  saved_activated,
  saved_count,
};

class Gpt2Block final : public Block {
 public:
  explicit Gpt2Block(Gpt2BlockParts parts) : parts_(std::move(parts)) {}

  at::Tensor forward(Arithmetic& arithmetic, const Pass& pass, const at::Tensor& hidden, Tape* tape) const override;
  at::Tensor backward(Arithmetic& arithmetic, const Pass& pass, const Tape& tape, const at::Tensor& output_gradient,
                      GradientSink& gradients) const override;

 private:
  at::Tensor norm(Arithmetic& arithmetic, const Norm& norm, const at::Tensor& input) const {
    return arithmetic.pointwise->layer_norm(input, norm.weight, norm.bias, parts_.epsilon);
  }
  at::Tensor norm_backward(Arithmetic& arithmetic, const Norm& norm, const at::Tensor& input,
                           const at::Tensor& gradient, GradientSink& gradients) const;

  Gpt2BlockParts parts_;
};

at::Tensor Gpt2Block::forward(Arithmetic& arithmetic, const Pass& pass, const at::Tensor& hidden, Tape* tape) const {
  auto& primitives = *arithmetic.primitives;
  const at::Tensor normed = norm(arithmetic, parts_.attention_norm, hidden);
  const at::Tensor joined = parts_.joined.forward(primitives, normed);  // [rows, 3 * hidden]
  const tensor::LayerCache cache = pass.layer_cache(parts_.layer);
  const tensor::HeadRows heads =
      arithmetic.pointwise->split_heads({.shape = parts_.shape}, joined, pass.tables.slots, cache);
  at::Tensor log_sums;
  const at::Tensor attended =
      primitives.attention(parts_.shape, pass.tables, heads, cache, tape == nullptr ? nullptr : &log_sums);
  at::Tensor middle = tape == nullptr ? hidden : hidden.clone();
  parts_.output.forward_add(primitives, attended, middle);

  const at::Tensor middle_normed = norm(arithmetic, parts_.feed_forward_norm, middle);
  const at::Tensor up = parts_.up.forward(primitives, middle_normed);
  const at::Tensor activated = arithmetic.pointwise->activate(parts_.activation, up, {});
  at::Tensor output = tape == nullptr ? middle : middle.clone();
  parts_.down.forward_add(primitives, activated, output);
  if (tape != nullptr)
    tape->tensors = {hidden,   normed, heads.queries, heads.keys, heads.values, attended,
                     log_sums, middle, middle_normed, up,         activated};
  return output;
}

at::Tensor Gpt2Block::norm_backward(Arithmetic& arithmetic, const Norm& norm, const at::Tensor& input,
                                    const at::Tensor& gradient, GradientSink& gradients) const {
  tensor::NormGradient result = arithmetic.pointwise->layer_norm_gradient(input, norm.weight, parts_.epsilon, gradient);
  gradients.add(norm.name + ".weight", result.weight);
  gradients.add(norm.name + ".bias", result.bias);
  return std::move(result.input);
}

at::Tensor Gpt2Block::backward(Arithmetic& arithmetic, const Pass& pass, const Tape& tape,
                               const at::Tensor& output_gradient, GradientSink& gradients) const {
  TORCH_INTERNAL_ASSERT(tape.tensors.size() == saved_count);
  auto& primitives = *arithmetic.primitives;
  const auto& saved = tape.tensors;
  const at::Tensor activated = parts_.down.backward(primitives, saved[saved_activated], output_gradient, gradients);
  const at::Tensor up = arithmetic.pointwise->activate_gradient(parts_.activation, saved[saved_up], {}, activated).gate;
  const at::Tensor middle_normed = parts_.up.backward(primitives, saved[saved_middle_normed], up, gradients);
  const at::Tensor middle = output_gradient + norm_backward(arithmetic, parts_.feed_forward_norm, saved[saved_middle],
                                                            middle_normed, gradients);

  const at::Tensor attended = parts_.output.backward(primitives, saved[saved_attended], middle, gradients);
  const tensor::AttentionGradient found = primitives.attention_gradient(
      parts_.shape, pass.tables, {saved[saved_query], saved[saved_key], saved[saved_value]}, saved[saved_attended],
      saved[saved_log_sums], attended);
  const at::Tensor joined = at::cat({found.queries, found.keys, found.values}, 1);
  const at::Tensor normed = parts_.joined.backward(primitives, saved[saved_normed], joined, gradients);
  return middle + norm_backward(arithmetic, parts_.attention_norm, saved[saved_input], normed, gradients);
}

}  // namespace

std::unique_ptr<Block> make_gpt2_block(Gpt2BlockParts parts) { return std::make_unique<Gpt2Block>(std::move(parts)); }

}  // namespace muster::model
