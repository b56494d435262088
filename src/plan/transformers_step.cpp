// The operations of transformers' models with PyTorch in eager mode, as they allocate. docs/memory-model.md says how
// each was found; bench/memory holds the measurements.
#include <algorithm>
#include <array>

#include "plan/step_moments.hpp"
#include "plan/transformers_attention.hpp"

namespace muster::plan {
namespace {

constexpr int wide = 4;  // bytes of a number that norms, softmax and the loss are computed in

struct BlockWeights {
  Parameter query, key, value, output, gate, up, down;
};

class TransformersModel {
 public:
  TransformersModel(const StepRequest& request, MemoryMeter& meter, std::int64_t blocks, bool recording)
      : request_(request),
        tape_(meter, request.types, request.gradients_stay, recording),
        tokens_(request.batch * request.sequence) {
    const bool trained = !request.adapters;
    const auto weight = [&](std::int64_t in, std::int64_t out) {
      return Parameter{.elements = in * out, .trained = trained, .packed = request.unpacked > 0};
    };
    const std::int64_t h = request.hidden, f = request.intermediate;
    for (std::int64_t i = 0; i < blocks; ++i)
      blocks_.push_back({weight(h, request.query), weight(h, request.kv), weight(h, request.kv),
                         weight(request.query, h), weight(h, f), weight(h, f), weight(f, h)});
    embedding_ = Parameter{request.vocabulary * h, trained, request.tied && request.has_head ? 2 : 1};
    head_ = Parameter{request.head_outputs * h, trained};
    positions_ = Parameter{request.sequence * h, trained};
  }

  std::size_t blocks() const { return blocks_.size(); }

  Tensor embed() {
    if (!request_.has_embedding) {
      // From the previous device; its gradient is wanted.
      Tensor received = tape_.make(tokens_ * request_.hidden, request_.types.weight);
      return tape_.recording() ? tape_.leaf(received) : received;
    }
    if (request_.position_kind == spec::PositionKind::rotary)
      return tape_.embedding(tokens_, request_.hidden, embedding_);
    const Tensor words = tape_.embedding(tokens_, request_.hidden, embedding_);
    const Tensor places = tape_.embedding(request_.sequence, request_.hidden, positions_);
    return tape_.dropout(tape_.add(words, places), request_.dropout.embedding);
  }

  // hidden: the output of the blocks before; kept by the caller while the block runs, as Python does.
  Tensor block(std::size_t number, const Tensor& hidden) {
    if (request_.recomputation != spec::Recomputation::full || !tape_.recording())
      return run_block(tape_, hidden, blocks_[number]);
    EagerTape unrecorded = tape_.beside(false);
    Tensor output = run_block(unrecorded, hidden, blocks_[number]);
    return tape_.record(output, {&hidden}, {hidden.data}, true,
                        [this, number, elements = hidden.elements, width = hidden.width](
                            Bytes gradient, std::vector<Bytes>& saved, std::vector<Bytes>& of_inputs) {
                          EagerTape again = tape_.beside(true);
                          Tensor input = again.leaf({saved[0], elements, width, std::nullopt});
                          const Tensor result = [&] {
                            Tensor out = run_block(again, input, blocks_[number]);
                            out.data.reset();  // its last operation is not computed again
                            forget_copies(blocks_[number]);
                            return out;
                          }();
                          input.data.reset();
                          of_inputs[0] = again.backward(result, std::move(gradient));
                          saved.clear();
                        });
  }

  Tensor final_norm(const Tensor& hidden) { return norm(tape_, hidden); }

  Tensor logits(const Tensor& normed) {
    return tape_.linear(normed, request_.tied ? embedding_ : head_, request_.hidden, request_.head_outputs, false,
                        Holding::logits);
  }

  EagerTape& tape() { return tape_; }

  void forget_all_copies() {
    for (BlockWeights& block : blocks_) forget_copies(block);
    embedding_.copy.reset();
    head_.copy.reset();
  }

  // What the device keeps of one block's keys and values.
  std::vector<Bytes> cache;
  bool caching = false;

 private:
  static void forget_copies(BlockWeights& block) {
    for (Parameter* weight :
         {&block.query, &block.key, &block.value, &block.output, &block.gate, &block.up, &block.down})
      weight->copy.reset();
  }

  Tensor run_block(EagerTape& tape, const Tensor& hidden, BlockWeights& weights) {
    Tensor after_attention = [&] {
      const Tensor normed = norm(tape, hidden);
      const Tensor attended = tape.dropout(attention(tape, normed, weights), request_.dropout.residual);
      return tape.add(hidden, attended);
    }();
    const Tensor normed = norm(tape, after_attention);
    const Tensor output = request_.gated ? gated_feed(tape, normed, weights) : plain_feed(tape, normed, weights);
    return tape.add(after_attention, tape.dropout(output, request_.dropout.residual));
  }

  // A product with a weight, with what adapters add to it.
  Tensor linear(EagerTape& tape, const Tensor& input, Parameter& weight, std::int64_t in, std::int64_t out, bool bias,
                std::int64_t AdapterRanks::*rank) {
    Tensor result = tape.linear(input, weight, in, out, bias);
    if (!request_.adapters || request_.adapters->ranks.*rank == 0) return result;
    return adapted(tape, input, result, request_.adapters->ranks.*rank, in, out);
  }

  // The adapters' weights are 4 bytes wide, as peft holds them along with 2-byte weights.
  Tensor adapted(EagerTape& tape, const Tensor& input, const Tensor& result, std::int64_t rank, std::int64_t in,
                 std::int64_t out) {
    const std::int64_t rows = input.elements / in;
    const Tensor raised = input.width == wide ? input : tape.cast(input, wide);
    const Tensor dropped = tape.dropout(raised, request_.adapters->dropout);
    const auto product = [&](const Tensor& from, std::int64_t columns_in, std::int64_t columns_out) {
      return tape.record(tape.make(rows * columns_out, wide), {&from}, {from.data}, true,
                         [&tape, bytes = rows * columns_in * wide](Bytes gradient, std::vector<Bytes>& saved,
                                                                   std::vector<Bytes>& of_inputs) {
                           of_inputs[0] = tape.take(bytes);
                           gradient.reset();
                           saved.clear();
                         });
    };
    Tensor change = product(product(dropped, in, rank), rank, out);
    change = tape.cast(change, wide);  // times alpha / rank
    const Tensor both = tape.add(result, change);
    return result.width == wide ? both : tape.cast(both, result.width);
  }

  Tensor norm(EagerTape& tape, const Tensor& input) {
    return request_.norm == spec::NormKind::layer ? layer_norm(tape, input) : rms_norm(tape, input);
  }

  Tensor layer_norm(EagerTape& tape, const Tensor& input) {
    const std::int64_t bytes = input.elements * input.width;
    return tape.record(tape.make(input.elements, input.width), {&input}, {input.data}, true,
                       [&tape, bytes](Bytes gradient, std::vector<Bytes>& saved, std::vector<Bytes>& of_inputs) {
                         of_inputs[0] = tape.take(bytes);
                         gradient.reset();
                         saved.clear();
                       });
  }

  // In 4-byte numbers: raise, square, mean, scale, lower, times weight.
  Tensor rms_norm(EagerTape& tape, const Tensor& input) {
    const std::int64_t elements = input.elements;
    const int width = input.width;
    const bool narrow = width != wide;
    Bytes raised = narrow ? tape.take(elements * wide) : input.data;
    static_cast<void>(tape.take(elements * wide));  // squares
    Bytes scaled = tape.take(elements * wide);
    if (narrow && !tape.recording()) raised.reset();
    Bytes lowered = narrow ? tape.take(elements * width) : scaled;
    const Tensor output = tape.make(elements, width);
    return tape.record(
        output, {&input}, {raised, lowered}, true,
        [&tape, elements, width, narrow](Bytes gradient, std::vector<Bytes>& saved, std::vector<Bytes>& of_inputs) {
          of_inputs[0] = rms_norm_backward(tape, elements, width, narrow, std::move(gradient), saved);
        });
  }

  static Bytes rms_norm_backward(EagerTape& tape, std::int64_t elements, int width, bool narrow, Bytes gradient,
                                 std::vector<Bytes>& saved) {
    const auto fresh = [&](int bytes) { return tape.take(elements * bytes); };
    Bytes of_scaled = fresh(width);
    {
      const Bytes of_weight = fresh(width);
      static_cast<void>(tape.take(reduction_scratch(elements)));
    }
    gradient.reset();
    saved[1].reset();
    if (narrow) of_scaled = fresh(wide);
    Bytes of_raised;
    {
      const Bytes of_root = fresh(wide);
      of_raised = fresh(wide);
    }
    of_scaled.reset();
    { const Bytes of_mean = fresh(wide), power = fresh(wide), scaled_power = fresh(wide), product = fresh(wide); }
    saved[0].reset();
    return narrow ? fresh(width) : of_raised;
  }

  // Queries or keys turned by their positions; cos and sin are wide under autocast.
  Tensor rope(EagerTape& tape, const Tensor& input) {
    const int width = input.width, turned = request_.types.autocast() ? wide : input.width;
    const std::int64_t elements = input.elements;
    Bytes by_cos = tape.take(elements * turned);
    Bytes half = tape.take(elements * width / 2);
    Bytes rotated = tape.take(elements * width);
    half.reset();
    Bytes by_sin = tape.take(elements * turned);
    rotated.reset();
    return tape.record(
        tape.make(elements, turned), {&input}, {}, false,
        [&tape, elements, width, turned](Bytes gradient, std::vector<Bytes>&, std::vector<Bytes>& of_inputs) {
          Bytes through_sin = tape.take(elements * turned);
          Bytes half_back = tape.take(elements * width / 2);
          of_inputs[0] = tape.take(elements * width);
          half_back.reset();
          const Bytes other_half = tape.take(elements * width);
          through_sin.reset();
          static_cast<void>(tape.take(elements * turned));
          gradient.reset();
        });
  }

  Tensor attention(EagerTape& tape, const Tensor& normed, BlockWeights& weights) {
    const std::int64_t h = request_.hidden;
    Tensor query = linear(tape, normed, weights.query, h, request_.query, request_.qkv_bias, &AdapterRanks::query);
    Tensor key = linear(tape, normed, weights.key, h, request_.kv, request_.qkv_bias, &AdapterRanks::key);
    Tensor value = linear(tape, normed, weights.value, h, request_.kv, request_.qkv_bias, &AdapterRanks::value);
    if (request_.query_key_norm) {
      query = rms_norm(tape, query);
      key = rms_norm(tape, key);
    }
    if (request_.position_kind == spec::PositionKind::rotary) {
      Tensor turned_query = rope(tape, query), turned_key = rope(tape, key);
      query = std::move(turned_query);
      key = std::move(turned_key);
    }
    if (caching) {
      cache.push_back(tape.take(key.elements * request_.types.compute, Holding::kv_cache));
      cache.push_back(tape.take(value.elements * request_.types.compute, Holding::kv_cache));
      key.data = cache[cache.size() - 2];
      value.data = cache.back();
    }
    const Tensor mixed = attend(tape, request_, query, key, value);
    return linear(tape, mixed, weights.output, request_.query, h, request_.output_bias, &AdapterRanks::output);
  }

  Tensor gated_feed(EagerTape& tape, const Tensor& normed, BlockWeights& weights) {
    const std::int64_t h = request_.hidden, f = request_.intermediate;
    const Tensor product = [&] {
      const Tensor active = [&] {
        const Tensor gate = linear(tape, normed, weights.gate, h, f, request_.mlp_bias, &AdapterRanks::gate);
        const std::int64_t bytes = gate.elements * gate.width;
        return tape.record(tape.make(gate.elements, gate.width), {&gate}, {gate.data}, false,
                           [&tape, bytes](Bytes gradient, std::vector<Bytes>& saved, std::vector<Bytes>& of_inputs) {
                             of_inputs[0] = tape.take(bytes);
                             gradient.reset();
                             saved.clear();
                           });
      }();
      const Tensor up = linear(tape, normed, weights.up, h, f, request_.mlp_bias, &AdapterRanks::up);
      return tape.multiply(active, up);
    }();
    return linear(tape, product, weights.down, f, h, request_.mlp_bias, &AdapterRanks::down);
  }

  // GPT-2's GELU is a chain of operations; pow and what follows are wide under autocast.
  Tensor plain_feed(EagerTape& tape, const Tensor& normed, BlockWeights& weights) {
    const std::int64_t h = request_.hidden, f = request_.intermediate;
    const Tensor active = gelu(tape, linear(tape, normed, weights.up, h, f, request_.mlp_bias, &AdapterRanks::up));
    return linear(tape, active, weights.down, f, h, request_.mlp_bias, &AdapterRanks::down);
  }

  Tensor gelu(EagerTape& tape, Tensor input) {
    const int width = input.width, chain = request_.types.autocast() ? wide : width;
    const std::int64_t elements = input.elements;
    const auto fresh = [&tape, elements](int bytes) { return tape.take(elements * bytes); };
    Bytes half = fresh(width);
    Bytes raised = chain == width ? input.data : fresh(chain);
    Bytes inner = fresh(chain);
    for (int operation = 0; operation < 3; ++operation) inner = fresh(chain);
    Bytes tanh = fresh(chain);
    inner.reset();
    Bytes plus_one = fresh(chain);
    return tape.record(tape.make(elements, chain), {&input}, {half, raised, tanh, plus_one}, false,
                       [fresh, width, chain](Bytes gradient, std::vector<Bytes>& saved, std::vector<Bytes>& of_inputs) {
                         Bytes of_half = fresh(width), of_tanh = fresh(chain);
                         gradient.reset();
                         saved[0].reset();
                         saved[3].reset();
                         of_tanh = fresh(chain);
                         saved[2].reset();
                         {
                           const Bytes cube = fresh(chain), power = fresh(chain), scaled = fresh(chain),
                                       product = fresh(chain);
                         }
                         saved.clear();
                         of_inputs[0] = std::move(of_half);
                       });
  }

  const StepRequest& request_;
  EagerTape tape_;
  std::int64_t tokens_;
  std::vector<BlockWeights> blocks_;
  Parameter embedding_, head_, positions_;
};

// The phases of a training step whose peaks are distinguished.
enum Phase { forward, loss_forward, loss_backward, last_block, first_block, embedding, phase_count };
constexpr std::array<std::string_view, phase_count> phase_names{"forward pass",
                                                                "loss",
                                                                "backward pass of the loss",
                                                                "backward pass of the last block",
                                                                "backward pass of the first block",
                                                                "backward pass of the embedding"};
using Heights = std::array<Held, phase_count>;

// An identity through which the backward pass announces itself.
Tensor announce(EagerTape& tape, const Tensor& input, std::function<void()> reached) {
  return tape.record(
      {input.data, input.elements, input.width, std::nullopt}, {&input}, {}, false,
      [reached = std::move(reached)](Bytes gradient, std::vector<Bytes>&, std::vector<Bytes>& of_inputs) {
        reached();
        of_inputs[0] = std::move(gradient);
      });
}

Heights train(const StepRequest& request, std::int64_t blocks) {
  MemoryMeter meter;
  TransformersModel model(request, meter, blocks, true);
  EagerTape& tape = model.tape();
  Heights heights{};
  Tensor output;
  {
    const Tensor embedded =
        announce(tape, model.embed(), [&] { heights[blocks == 1 ? last_block : first_block] = meter.end_phase(); });
    Tensor hidden = embedded;
    for (std::int64_t i = 0; i < blocks; ++i) {
      hidden = model.block(static_cast<std::size_t>(i), hidden);
      hidden = announce(tape, hidden, [&heights, &meter, after = blocks - 1 - i] {
        const Held height = meter.end_phase();
        if (after == 0) heights[loss_backward] = height;
        if (after == 1) heights[last_block] = height;
      });
    }
    heights[forward] = meter.end_phase();
    output = request.has_head ? tape.cross_entropy(model.logits(model.final_norm(hidden))) : hidden;
  }
  heights[loss_forward] = meter.end_phase();
  model.forget_all_copies();
  meter.end_phase();
  Bytes gradient = tape.take(output.elements * output.width);
  output.data.reset();
  static_cast<void>(tape.backward(output, std::move(gradient)));
  heights[embedding] = meter.end_phase();
  return heights;
}

// Every block adds the same to each peak, so that two and three blocks give the values for any number of them.
template <class Measured>
Measured extend(const Measured& two, const Measured& three, std::int64_t layers) {
  Measured extended = two;
  for (std::size_t phase = 0; phase < two.size(); ++phase)
    for (std::size_t holding = 0; holding < two[phase].size(); ++holding)
      extended[phase][holding] += (layers - 2) * (three[phase][holding] - two[phase][holding]);
  return extended;
}

enum Reading { prompt, next_token, reading_count };
using ReadingHeights = std::array<Held, reading_count>;

// One pass over the prompt, and one for the last of the tokens that are written after it.
ReadingHeights infer(const StepRequest& request, std::int64_t blocks, std::int64_t new_tokens) {
  MemoryMeter meter;
  TransformersModel model(request, meter, blocks, false);
  model.caching = new_tokens > 0;
  ReadingHeights heights{};
  const std::int64_t all = request.batch * request.sequence;
  {
    Tensor last;
    {
      const Tensor embedded = model.embed();
      Tensor hidden = embedded;
      for (std::int64_t i = 0; i < blocks; ++i) hidden = model.block(static_cast<std::size_t>(i), hidden);
      last = model.final_norm(hidden);
    }
    if (request.has_head) {
      const std::int64_t positions = model.caching ? request.batch : all;
      last.elements = positions * request.hidden;
      const Tensor logits = model.logits(last);
      if (model.caching) static_cast<void>(model.tape().take(positions * request.head_outputs * wide, Holding::logits));
    }
  }
  heights[prompt] = meter.end_phase();
  // Each token's keys and values are appended to the cache by copying a block's part of it.
  const std::int64_t per_token = 2 * blocks * request.kv * request.types.compute * request.batch;
  const std::int64_t length = request.sequence + new_tokens - 1;
  if (model.caching) {
    heights[next_token][static_cast<std::size_t>(Holding::kv_cache)] = per_token * length;
    heights[next_token][static_cast<std::size_t>(Holding::activations)] =
        request.kv * request.types.compute * request.batch * length;
    heights[next_token][static_cast<std::size_t>(Holding::logits)] =
        request.has_head ? request.batch * request.head_outputs * (request.types.compute + 2 * wide) : 0;
  }
  return heights;
}

}  // namespace

std::vector<Moment> transformers_training(const StepRequest& request) {
  const Heights heights = request.layers < 2 ? train(request, std::max<std::int64_t>(request.layers, 1))
                                             : extend(train(request, 2), train(request, 3), request.layers);
  std::vector<Moment> moments;
  for (std::size_t phase = 0; phase < heights.size(); ++phase) moments.push_back({phase_names[phase], heights[phase]});
  return moments;
}

std::vector<Moment> transformers_inference(const StepRequest& request, std::int64_t new_tokens) {
  const ReadingHeights heights =
      request.layers < 2 ? infer(request, std::max<std::int64_t>(request.layers, 1), new_tokens)
                         : extend(infer(request, 2, new_tokens), infer(request, 3, new_tokens), request.layers);
  return {{"reading the prompt", heights[prompt]}, {"writing the last token", heights[next_token]}};
}

}  // namespace muster::plan
