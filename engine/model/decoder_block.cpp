#include "model/decoder_block.hpp"

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
  saved_up,  // and the gate, if there is one
  saved_count,
};

// And of what adapters made.
enum Layer : std::size_t { layer_joined, layer_output, layer_up, layer_down, layer_count };

std::pair<at::Tensor, at::Tensor> halves(const at::Tensor& joined) {
  const std::int64_t width = joined.size(1) / 2;
  return {joined.narrow(1, 0, width), joined.narrow(1, width, width)};
}

class DecoderBlock final : public Block {
 public:
  explicit DecoderBlock(DecoderBlockParts parts) : parts_(std::move(parts)) {}

  at::Tensor forward(DeviceOps& ops, const Pass& pass, const at::Tensor& hidden, Tape* tape) const override;
  void thin(Tape& tape) const override;
  void restore(DeviceOps& ops, const Pass& pass, Tape& tape) const override;
  at::Tensor backward(DeviceOps& ops, const Pass& pass, const Tape& tape, const at::Tensor& output_gradient,
                      ParameterAccess& access) const override;

 private:
  tensor::HeadSplit head_split(const Pass& pass) const;
  at::Tensor norm_heads_backward(DeviceOps& ops, const std::optional<Norm>& norm, const at::Tensor& heads,
                                 const at::Tensor& gradient, ParameterAccess& access) const;
  at::Tensor activated(DeviceOps& ops, const at::Tensor& up) const;
  // The gradient of the joined rows of queries, keys and values.
  at::Tensor heads_backward(DeviceOps& ops, const Pass& pass, const Tape& tape,
                            const tensor::AttentionGradient& found, ParameterAccess& access) const;
  // Includes the residual stream's own: gradient is that of the sum.
  at::Tensor attention_backward(DeviceOps& ops, const Pass& pass, const Tape& tape, const at::Tensor& gradient,
                                ParameterAccess& access) const;
  at::Tensor feed_forward_backward(DeviceOps& ops, const Pass& pass, const Tape& tape,
                                   const at::Tensor& gradient, ParameterAccess& access) const;

  DecoderBlockParts parts_;
};

tensor::HeadSplit DecoderBlock::head_split(const Pass& pass) const {
  tensor::HeadSplit split{parts_.shape, {}, {}, parts_.epsilon, pass.rotary.cosines, pass.rotary.sines};
  if (parts_.query_norm) split.query_norm = parts_.query_norm->weight;
  if (parts_.key_norm) split.key_norm = parts_.key_norm->weight;
  return split;
}

at::Tensor DecoderBlock::activated(DeviceOps& ops, const at::Tensor& up) const {
  if (!parts_.gated) return ops.rows->activate(parts_.activation, up, {});
  const auto [gate, factor] = halves(up);
  return ops.rows->activate(parts_.activation, gate, factor);
}

at::Tensor DecoderBlock::forward(DeviceOps& ops, const Pass& pass, const at::Tensor& hidden, Tape* tape) const {
  auto& primitives = *ops.primitives;
  const tensor::LayerCache cache = pass.layer_cache(parts_.layer);
  if (tape != nullptr) tape->narrow.assign(layer_count, {});
  const auto narrow = [&](Layer layer) { return tape == nullptr ? nullptr : &tape->narrow[layer]; };
  const at::Tensor normed = parts_.attention_norm.forward(ops, hidden, parts_.epsilon);
  // [rows, (heads + 2 kv_heads) * head_size]
  const at::Tensor joined = parts_.joined.forward(ops, pass, normed, narrow(layer_joined));
  const tensor::HeadRows heads = ops.rows->split_heads(head_split(pass), joined, pass.tables.slots, cache);
  at::Tensor log_sums;
  const at::Tensor attended =
      primitives.attention(parts_.shape, pass.tables, heads, cache, tape == nullptr ? nullptr : &log_sums);
  const at::Tensor middle =
      parts_.output.forward_add(ops, pass, attended, hidden, tape == nullptr, narrow(layer_output));

  const at::Tensor middle_normed = parts_.feed_forward_norm.forward(ops, middle, parts_.epsilon);
  at::Tensor up;  // [rows, intermediate]; gated: [rows, 2 * intermediate]
  at::Tensor active;
  if (tape == nullptr && parts_.gated)
    active = parts_.up.forward_gated(ops, parts_.activation, middle_normed);
  if (!active.defined()) {
    up = parts_.up.forward(ops, pass, middle_normed, narrow(layer_up));
    active = activated(ops, up);
  }
  const at::Tensor output = parts_.down.forward_add(ops, pass, active, middle, tape == nullptr, narrow(layer_down));
  if (tape != nullptr)
    tape->tensors = {hidden,   normed,   joined, heads.queries, heads.keys, heads.values,
                     attended, log_sums, middle, middle_normed, up};
  return output;
}

void DecoderBlock::thin(Tape& tape) const {
  for (const Saved cheap : {saved_normed, saved_queries, saved_keys, saved_values, saved_middle_normed})
    tape.tensors[cheap].reset();
}

void DecoderBlock::restore(DeviceOps& ops, const Pass& pass, Tape& tape) const {
  auto& saved = tape.tensors;
  if (saved[saved_normed].defined()) return;
  saved[saved_normed] = parts_.attention_norm.forward(ops, saved[saved_input], parts_.epsilon);
  tensor::HeadRows heads = ops.rows->split_heads(head_split(pass), saved[saved_joined], {}, {});
  saved[saved_queries] = std::move(heads.queries);
  saved[saved_keys] = std::move(heads.keys);
  saved[saved_values] = std::move(heads.values);
  saved[saved_middle_normed] = parts_.feed_forward_norm.forward(ops, saved[saved_middle], parts_.epsilon);
}

at::Tensor DecoderBlock::norm_heads_backward(DeviceOps& ops, const std::optional<Norm>& norm,
                                            const at::Tensor& heads, const at::Tensor& gradient,
                                            ParameterAccess& access) const {
  if (!norm) return gradient;
  const std::array<std::int64_t, 2> rows{-1, parts_.shape.head_size};
  return norm->backward(ops, heads.reshape(rows), parts_.epsilon, gradient.reshape(rows), {}, access)
      .view(gradient.sizes());
}

at::Tensor DecoderBlock::feed_forward_backward(DeviceOps& ops, const Pass& pass, const Tape& tape,
                                              const at::Tensor& gradient, ParameterAccess& access) const {
  const auto& saved = tape.tensors;
  const auto [gate, up] = parts_.gated ? halves(saved[saved_up]) : std::pair(saved[saved_up], at::Tensor{});
  const OutputGradient down = parts_.down.output_gradient(ops, gradient);
  tensor::GatedGradient gated = ops.rows->activate_gradient(
      parts_.activation, gate, up, parts_.down.input_gradient(ops, pass, down));
  parts_.down.add_gradients(ops, pass, gated.activated, tape.narrow[layer_down], down, access);
  gated.activated.reset();
  const at::Tensor normed =
      parts_.up.backward(ops, pass, saved[saved_middle_normed], tape.narrow[layer_up],
                         parts_.gated ? tensor::side_by_side({gated.gate, gated.up}) : gated.gate, access);
  return parts_.feed_forward_norm.backward(ops, saved[saved_middle], parts_.epsilon, normed, gradient, access);
}

at::Tensor DecoderBlock::heads_backward(DeviceOps& ops, const Pass& pass, const Tape& tape,
                                       const tensor::AttentionGradient& found, ParameterAccess& access) const {
  const bool turns = pass.rotary.cosines.defined(), norms = parts_.query_norm || parts_.key_norm;
  if (!turns && !norms) return tensor::side_by_side({found.queries, found.keys, found.values});
  if (!norms) return ops.rows->join_gradients(head_split(pass), found);
  const tensor::AttentionShape& shape = parts_.shape;
  const at::Tensor& joined = tape.tensors[saved_joined];
  const std::int64_t query_width = shape.heads * shape.head_size, kv_width = shape.kv_heads * shape.head_size;
  const auto turn_back = [&](const at::Tensor& rotated) {
    return turns ? ops.rows->rotate_back(rotated, pass.rotary.cosines, pass.rotary.sines) : rotated;
  };
  const at::Tensor query = norm_heads_backward(ops, parts_.query_norm, joined.narrow(1, 0, query_width),
                                               turn_back(found.queries), access);
  const at::Tensor key = norm_heads_backward(ops, parts_.key_norm, joined.narrow(1, query_width, kv_width),
                                             turn_back(found.keys), access);
  return tensor::side_by_side({query, key, found.values});
}

at::Tensor DecoderBlock::attention_backward(DeviceOps& ops, const Pass& pass, const Tape& tape,
                                           const at::Tensor& gradient, ParameterAccess& access) const {
  auto& primitives = *ops.primitives;
  const auto& saved = tape.tensors;
  const at::Tensor attended =
      parts_.output.backward(ops, pass, saved[saved_attended], tape.narrow[layer_output], gradient, access);
  const tensor::AttentionShape& shape = parts_.shape;
  const tensor::HeadRows heads{saved[saved_queries], saved[saved_keys], saved[saved_values]};
  const tensor::AttentionGradient found =
      primitives.attention_gradient(shape, pass.tables, heads, saved[saved_attended], saved[saved_log_sums], attended);
  const at::Tensor normed = parts_.joined.backward(ops, pass, saved[saved_normed], tape.narrow[layer_joined],
                                                   heads_backward(ops, pass, tape, found, access), access);
  return parts_.attention_norm.backward(ops, saved[saved_input], parts_.epsilon, normed, gradient, access);
}

at::Tensor DecoderBlock::backward(DeviceOps& ops, const Pass& pass, const Tape& tape,
                                 const at::Tensor& output_gradient, ParameterAccess& access) const {
  TORCH_INTERNAL_ASSERT(tape.tensors.size() == saved_count);
  const at::Tensor middle = feed_forward_backward(ops, pass, tape, output_gradient, access);
  return attention_backward(ops, pass, tape, middle, access);
}

}  // namespace

std::unique_ptr<Block> make_decoder_block(DecoderBlockParts parts) {
  return std::make_unique<DecoderBlock>(std::move(parts));
}

}  // namespace muster::model
