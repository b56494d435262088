#include "model/rotary_block.hpp"

#include <array>

#include "model/attention_rows.hpp"

namespace muster::model {
namespace {

using tensor::Arithmetic;

// What the tape holds, in order.
enum Saved : std::size_t {
  saved_input,
  saved_normed,
  saved_query,  // before its norm, where there is one
  saved_key,
  saved_rotated_query,
  saved_rotated_key,
  saved_value,
  saved_attended,
  saved_log_sums,
  saved_middle,  // after attention
  saved_middle_normed,
  saved_gate,
  saved_up,
  saved_activated,
  saved_count,
};

class RotaryBlock final : public Block {
 public:
  explicit RotaryBlock(RotaryBlockParts parts) : parts_(std::move(parts)) {}

  at::Tensor forward(Arithmetic& arithmetic, const Pass& pass, const at::Tensor& hidden, Tape* tape) const override;
  at::Tensor backward(Arithmetic& arithmetic, const Pass& pass, const Tape& tape, const at::Tensor& output_gradient,
                      GradientSink& gradients) const override;

 private:
  at::Tensor norm_heads(Arithmetic& arithmetic, const std::optional<Norm>& norm, const at::Tensor& heads) const;
  at::Tensor norm_heads_backward(Arithmetic& arithmetic, const std::optional<Norm>& norm, const at::Tensor& heads,
                                 const at::Tensor& gradient, GradientSink& gradients) const;
  at::Tensor norm_backward(Arithmetic& arithmetic, const Norm& norm, const at::Tensor& input,
                           const at::Tensor& gradient, GradientSink& gradients) const;
  at::Tensor attention_backward(Arithmetic& arithmetic, const Pass& pass, const Tape& tape, const at::Tensor& gradient,
                                GradientSink& gradients) const;
  at::Tensor feed_forward_backward(Arithmetic& arithmetic, const Tape& tape, const at::Tensor& gradient,
                                   GradientSink& gradients) const;

  RotaryBlockParts parts_;
};

at::Tensor RotaryBlock::norm_heads(Arithmetic& arithmetic, const std::optional<Norm>& norm,
                                   const at::Tensor& heads) const {
  if (!norm) return heads;
  const at::Tensor rows = heads.view({-1, parts_.shape.head_size});
  return arithmetic.pointwise->rms_norm(rows, norm->weight, parts_.epsilon).view(heads.sizes());
}

at::Tensor RotaryBlock::forward(Arithmetic& arithmetic, const Pass& pass, const at::Tensor& hidden, Tape* tape) const {
  auto& primitives = *arithmetic.primitives;
  auto& pointwise = *arithmetic.pointwise;
  const at::Tensor normed = pointwise.rms_norm(hidden, parts_.input_norm.weight, parts_.epsilon);
  const at::Tensor query = parts_.query.forward(primitives, normed);  // [rows, heads * head_size]
  const at::Tensor key = parts_.key.forward(primitives, normed);
  const at::Tensor value = parts_.value.forward(primitives, normed);
  const auto rotate = [&](const at::Tensor& heads) {
    return pointwise.rotate(heads, pass.rotary.cosines, pass.rotary.sines);
  };
  const at::Tensor rotated_query = rotate(norm_heads(arithmetic, parts_.query_norm, query));
  const at::Tensor rotated_key = rotate(norm_heads(arithmetic, parts_.key_norm, key));
  const auto sequences = attention_sequences(pass, parts_.shape, parts_.layer, rotated_key, value);
  at::Tensor log_sums;
  const at::Tensor attended =
      primitives.attention(parts_.shape, rotated_query, sequences, tape == nullptr ? nullptr : &log_sums);
  const at::Tensor middle = hidden + parts_.output.forward(primitives, attended);

  const at::Tensor middle_normed = pointwise.rms_norm(middle, parts_.output_norm.weight, parts_.epsilon);
  const at::Tensor gate = parts_.gate.forward(primitives, middle_normed);
  const at::Tensor up = parts_.up.forward(primitives, middle_normed);
  const at::Tensor activated = pointwise.activate(parts_.activation, gate, up);
  if (tape != nullptr)
    tape->tensors = {hidden,   normed,   query,  key,           rotated_query, rotated_key, value,
                     attended, log_sums, middle, middle_normed, gate,          up,          activated};
  return middle + parts_.down.forward(primitives, activated);
}

at::Tensor RotaryBlock::norm_backward(Arithmetic& arithmetic, const Norm& norm, const at::Tensor& input,
                                      const at::Tensor& gradient, GradientSink& gradients) const {
  tensor::NormGradient result = arithmetic.pointwise->rms_norm_gradient(input, norm.weight, parts_.epsilon, gradient);
  gradients.add(norm.name + ".weight", result.weight);
  return std::move(result.input);
}

at::Tensor RotaryBlock::norm_heads_backward(Arithmetic& arithmetic, const std::optional<Norm>& norm,
                                            const at::Tensor& heads, const at::Tensor& gradient,
                                            GradientSink& gradients) const {
  if (!norm) return gradient;
  const std::array<std::int64_t, 2> rows{-1, parts_.shape.head_size};
  return norm_backward(arithmetic, *norm, heads.view(rows), gradient.reshape(rows), gradients).view(heads.sizes());
}

at::Tensor RotaryBlock::feed_forward_backward(Arithmetic& arithmetic, const Tape& tape, const at::Tensor& gradient,
                                              GradientSink& gradients) const {
  auto& primitives = *arithmetic.primitives;
  const auto& saved = tape.tensors;
  const at::Tensor activated = parts_.down.backward(primitives, saved[saved_activated], gradient, gradients);
  const tensor::GatedGradient gated =
      arithmetic.pointwise->activate_gradient(parts_.activation, saved[saved_gate], saved[saved_up], activated);
  const at::Tensor& normed = saved[saved_middle_normed];
  const at::Tensor from_gate = parts_.gate.backward(primitives, normed, gated.gate, gradients);
  const at::Tensor from_up = parts_.up.backward(primitives, normed, gated.up, gradients);
  return norm_backward(arithmetic, parts_.output_norm, saved[saved_middle], from_gate + from_up, gradients);
}

at::Tensor RotaryBlock::attention_backward(Arithmetic& arithmetic, const Pass& pass, const Tape& tape,
                                           const at::Tensor& gradient, GradientSink& gradients) const {
  auto& primitives = *arithmetic.primitives;
  const auto& saved = tape.tensors;
  const at::Tensor attended = parts_.output.backward(primitives, saved[saved_attended], gradient, gradients);
  const auto sequences =
      attention_sequences(pass, parts_.shape, parts_.layer, saved[saved_rotated_key], saved[saved_value]);
  const tensor::AttentionGradient heads = primitives.attention_gradient(
      parts_.shape, saved[saved_rotated_query], sequences, saved[saved_attended], saved[saved_log_sums], attended);
  const auto turn_back = [&](const at::Tensor& rotated) {
    return arithmetic.pointwise->rotate(rotated, pass.rotary.cosines, -pass.rotary.sines);
  };
  const at::Tensor query =
      norm_heads_backward(arithmetic, parts_.query_norm, saved[saved_query], turn_back(heads.queries), gradients);
  const at::Tensor key =
      norm_heads_backward(arithmetic, parts_.key_norm, saved[saved_key], turn_back(heads.keys), gradients);
  const at::Tensor& normed = saved[saved_normed];
  const at::Tensor from_query = parts_.query.backward(primitives, normed, query, gradients);
  const at::Tensor from_key = parts_.key.backward(primitives, normed, key, gradients);
  const at::Tensor from_value = parts_.value.backward(primitives, normed, heads.values, gradients);
  return norm_backward(arithmetic, parts_.input_norm, saved[saved_input], from_query + from_key + from_value,
                       gradients);
}

at::Tensor RotaryBlock::backward(Arithmetic& arithmetic, const Pass& pass, const Tape& tape,
                                 const at::Tensor& output_gradient, GradientSink& gradients) const {
  TORCH_INTERNAL_ASSERT(tape.tensors.size() == saved_count);
  const at::Tensor middle = output_gradient + feed_forward_backward(arithmetic, tape, output_gradient, gradients);
  return middle + attention_backward(arithmetic, pass, tape, middle, gradients);
}

}  // namespace

std::unique_ptr<Block> make_rotary_block(RotaryBlockParts parts) {
  return std::make_unique<RotaryBlock>(std::move(parts));
}

}  // namespace muster::model
