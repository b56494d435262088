// The step of muster's own engine: fused norm, rope and gate, attention in tiles, a loss that never holds all logits.
// Closed forms, term by term in docs/memory-model.md.
#include <algorithm>

#include "plan/step_moments.hpp"

namespace muster::plan {
namespace {

constexpr std::int64_t float_width = 4;
// Rows whose logits are alive at once while the loss is computed (engine/train/objectives/supervised.cpp).
constexpr std::int64_t loss_rows_on_gpu = 2048;
constexpr std::int64_t loss_rows_on_cpu = 256;
// In the engine's generator: rows that are read in one step, rows whose logits are alive at once while texts are
// scored, tokens in a block of the cache.
constexpr std::int64_t most_read = 2048;
constexpr std::int64_t most_drawn = 128;
constexpr std::int64_t cache_block = 64;
// Whole numbers that a pass has for each token: itself, its position, whether and for what it is trained.
constexpr std::int64_t pass_numbers = 4;
// Numbers whose row norms are taken at once (engine/tensor/row_norms.cpp).
constexpr std::int64_t most_measured = std::int64_t{1} << 20;
// Numbers of each row that is weighed by its probability: that, once and as a whole, and the weight.
constexpr std::int64_t numbers_of_weighed = 3;
// Score tables of one sequence that attention by plain products has at once when it is differentiated.
constexpr std::int64_t score_tables = 4;

// What a block keeps on its tape, and its temporaries.
class StepBytes {
 public:
  explicit StepBytes(const StepRequest& request)
      : request_(request),
        tokens_(request.batch * request.sequence),
        width_(request.types.compute),
        gated_(request.gated),
        turned_(request.position_kind == spec::PositionKind::rotary) {}

  // The residual stream between two blocks.
  std::int64_t stream() const { return tokens_ * request_.hidden * width_; }

  // All that the backward pass of a block reads, its input included.
  std::int64_t tape() const {
    return tokens_ * ((numbers(4, 3, 4, gated_ ? 2 : 1) + narrow()) * width_ + request_.heads * float_width);
  }
  // The part of it that stays until then.
  std::int64_t kept() const {
    if (request_.recomputation == spec::Recomputation::full) return stream();
    if (request_.recomputation == spec::Recomputation::none) return tape();
    return tokens_ * ((numbers(2, 2, 2, gated_ ? 2 : 1) + narrow()) * width_ + request_.heads * float_width);
  }
  // Rotary tables, float32, and what a pass knows about each token.
  std::int64_t tables() const {
    const std::int64_t rotary = turned_ ? request_.query / std::max<std::int64_t>(request_.heads, 1) * float_width : 0;
    return tokens_ * (rotary + (pass_numbers + dropped(1)) * 8);  // dropout has a key for each row
  }

  // In addition to the tape while a block is computed: its output and the activated values, or what attention or the
  // activation need for a moment.
  std::int64_t forward() const {
    const std::int64_t raised = gated_ || request_.on_cpu ? 0 : tokens_ * request_.intermediate * 2 * float_width;
    const std::int64_t adapted = is_decomposed() ? forward_of_decomposed() : forward_of_adapters();
    return std::max({tokens_ * numbers(1, 0, 0, 1) * width_, score_bytes(), raised, adapted}) + unpacked();
  }
  // In addition to the tape and the incoming gradient.
  std::int64_t backward() const {
    return std::max(feed_forward(), stream() + attention()) + product_of_block() + unpacked();
  }

  std::int64_t loss_rows() const { return std::min(tokens_, request_.on_cpu ? loss_rows_on_cpu : loss_rows_on_gpu); }
  // Replaced by their gradient in place; exact sums on GPUs read rows that begin at a cache line, and copy others.
  std::int64_t logits() const { return loss_rows() * request_.head_outputs * width_ * (adds_head() ? 2 : 1); }
  // In addition to them: the gradient of the rows, and what is added to the head's sum.
  std::int64_t head() const {
    return (request_.weighed ? tokens_ * numbers_of_weighed * float_width : 0) + loss_rows() * request_.hidden * width_ +
           (adds_head() ? request_.head_outputs * request_.hidden * float_width : 0);
  }

 private:
  std::int64_t numbers(std::int64_t hidden, std::int64_t query, std::int64_t kv, std::int64_t intermediate) const {
    return hidden * request_.hidden + query * request_.query + kv * request_.kv + intermediate * request_.intermediate;
  }
  std::int64_t feed_forward() const {
    const std::int64_t adapted = tokens_ * feed_forward_of_adapters() * width_;
    if (gated_) return std::max(tokens_ * std::max(numbers(0, 0, 0, 3), numbers(2, 0, 0, 2)) * width_, adapted);
    // An activation that has no kernel of its own is differentiated by the library, in float32.
    const std::int64_t slope = request_.on_cpu ? width_ : (width_ == float_width ? 3 : 4) * float_width;
    return std::max(tokens_ * (numbers(2, 0, 0, 1) * width_ + request_.intermediate * slope), adapted);
  }

  std::int64_t attention() const {
    const std::int64_t heads = numbers(0, turned_ ? 4 : 3, turned_ ? 5 : 4, 0);
    const std::int64_t after = (heads + std::max(2 * request_.hidden, backward_of_joined())) * width_;
    const std::int64_t sums = request_.on_cpu ? 0 : request_.query * float_width + request_.heads * float_width;
    const std::int64_t repeated = request_.grouped && !request_.on_cpu ? 2 * request_.query * width_ : 0;
    const std::int64_t inside = numbers(0, 2, 2, 0) * width_ + sums + repeated;
    return std::max(tokens_ * after, tokens_ * inside + score_bytes());
  }

  // A GPU multiplies many rows by a packed matrix after it has unpacked it; a CPU's kernels read it as it is.
  std::int64_t unpacked() const { return request_.on_cpu ? 0 : request_.unpacked; }

  // What adapters make of a token's inputs.
  std::int64_t narrow() const {
    const AdapterRanks of = ranks();
    return of.query + of.key + of.value + of.output + of.gate + of.up + of.down;
  }
  AdapterRanks ranks() const { return request_.adapters ? request_.adapters->ranks : AdapterRanks{}; }
  // Numbers of a row that dropout copies, in each pass again.
  std::int64_t dropped(std::int64_t width) const {
    return request_.adapters && request_.adapters->dropout > 0 ? width : 0;
  }
  // What an adapter gives is computed beside what its layer gives; a sum with the residual stream is a third one.
  std::int64_t forward_of_adapters() const {
    const std::int64_t h = request_.hidden, f = request_.intermediate;
    std::int64_t most = 0;
    if (const std::int64_t rank = ranks().feed(); rank > 0) most = rank + std::max(dropped(h), f);
    if (const std::int64_t rank = ranks().down; rank > 0)
      most = std::max(most, f + 2 * h + rank + std::max(dropped(f), h));
    return tokens_ * most * width_;
  }
  bool is_decomposed() const { return request_.adapters && request_.adapters->decomposed; }
  // So many float32 numbers, in numbers of the type that is computed in.
  std::int64_t wide(std::int64_t count) const { return count * float_width / width_; }

  // DoRA: beside the outputs of a layer lie its product by itself where inputs were left out or a bias was added, what
  // is added to a part of them, twice in float32, and while norms are taken what rows are made of.
  std::int64_t forward_of_scaled(std::int64_t rank, std::int64_t inputs, std::int64_t outputs, std::int64_t part,
                                 bool bias) const {
    if (rank == 0) return 0;
    const std::int64_t apart = bias || dropped(1) > 0 ? outputs : 0;
    const std::int64_t held = tokens_ * (dropped(inputs) + apart + part) * width_;
    const std::int64_t measured = std::min(part * inputs, most_measured);
    const std::int64_t raised = width_ == float_width ? 0 : width_;
    return held + std::max(tokens_ * wide(2 * part) * width_, measured * (2 * float_width + raised));
  }
  std::int64_t forward_of_decomposed() const {
    const std::int64_t h = request_.hidden, f = request_.intermediate;
    const std::int64_t feed = forward_of_scaled(ranks().feed(), h, (gated_ ? 2 : 1) * f, f, request_.mlp_bias);
    const std::int64_t down = forward_of_scaled(ranks().down, f, h, h, request_.mlp_bias);
    return std::max(feed, down == 0 ? 0 : tokens_ * (f + 2 * h) * width_ + down);
  }
  // In the backward pass, either for the sums: the product again, the gradient before it was scaled, and the terms of
  // the magnitude's; or for the inputs: the scaled gradient, and what comes through weight and adapter.
  std::int64_t backward_of_scaled(std::int64_t rank, std::int64_t inputs, std::int64_t outputs,
                                  std::int64_t part) const {
    if (rank == 0) return 0;
    const std::int64_t raised = width_ == float_width ? 0 : wide(part);
    const std::int64_t sums = dropped(inputs) + rank + outputs + part + wide(2 * part) + raised;
    const std::int64_t kept = dropped(1) > 0 ? part : 0;
    const std::int64_t through =
        outputs + std::max({wide(part), inputs + kept + std::max(kept > 0 ? wide(part) : 0, rank + inputs),
                            inputs + 2 * dropped(inputs)});
    return std::max(sums, through);
  }

  // In addition to the gradient of joined outputs, of which an adapter reads a part: that part by itself, which a CPU
  // copies once more, or the gradient of the inputs and what comes through the adapter.
  std::int64_t through_part(std::int64_t rank, std::int64_t inputs, std::int64_t part) const {
    if (rank == 0) return 0;
    const std::int64_t copied = request_.on_cpu ? part : 0;
    return std::max({dropped(inputs) + part + copied + rank, inputs + copied + rank, 2 * inputs + rank,
                     2 * inputs + dropped(inputs)});
  }
  std::int64_t backward_of_joined() const {
    if (is_decomposed())
      return backward_of_scaled(ranks().joined(), request_.hidden, request_.query + 2 * request_.kv,
                                std::max(request_.query, request_.kv));
    return through_part(ranks().joined(), request_.hidden, turned_ ? std::max(request_.query, request_.kv) : 0);
  }
  std::int64_t feed_forward_of_adapters() const {
    const std::int64_t h = request_.hidden, f = request_.intermediate, outputs = (gated_ ? 2 : 1) * f;
    std::int64_t most = 0;
    if (is_decomposed()) {
      if (ranks().down > 0) most = outputs + f + backward_of_scaled(ranks().down, f, h, h);
      if (ranks().feed() > 0) most = std::max(most, outputs + backward_of_scaled(ranks().feed(), h, outputs, f));
      return most;
    }
    if (const std::int64_t rank = ranks().down; rank > 0) most = outputs + f + dropped(f) + rank;
    if (const std::int64_t rank = ranks().feed(); rank > 0)
      most = std::max(most, outputs + through_part(rank, request_.hidden, gated_ ? f : 0));
    return most;
  }

  // float32 on a GPU has no packed attention: a sequence at a time, by plain products where heads are grouped or the
  // order of sums is fixed.
  std::int64_t score_bytes() const {
    const bool plain = !request_.on_cpu && width_ == float_width && (request_.grouped || request_.exact);
    return plain ? score_tables * request_.heads * request_.sequence * request_.sequence * float_width : 0;
  }

  // Exact sums on GPUs take a product that was computed separately.
  bool adds_products() const { return request_.exact && !request_.on_cpu; }
  bool adds_head() const { return adds_products() && (!request_.adapters || request_.adapters->whole_head); }
  std::int64_t product_of_block() const {
    if (!adds_products()) return 0;
    if (request_.adapters) {
      const std::int64_t narrow =
          ranks().largest() * std::max({request_.hidden, request_.query, request_.intermediate});
      return float_width * std::max(request_.adapters->whole_product, narrow);
    }
    const std::int64_t widest = std::max(request_.query + 2 * request_.kv, (gated_ ? 2 : 1) * request_.intermediate);
    return request_.hidden * widest * float_width;
  }

  const StepRequest& request_;
  std::int64_t tokens_;
  std::int64_t width_;
  bool gated_;
  bool turned_;  // queries and keys, by their positions
};

UnitSizes times(const UnitSizes& units, std::int64_t width) {
  return {units.embedding * width, units.block * width, units.last * width};
}
UnitSizes sum(const UnitSizes& a, const UnitSizes& b) {
  return {a.embedding + b.embedding, a.block + b.block, a.last + b.last};
}

// The units that are whole at a moment, and their gradients, for a model whose ranks hold parts. All in bytes.
class WholeUnits {
 public:
  explicit WholeUnits(const StepRequest& request) : request_(request) {
    if (!request.gathering) return;
    const Gathering& gathering = *request.gathering;
    trained_ = times(gathering.units, request.types.compute);
    if (request.adapters && request.adapters->decomposed) trained_.block = gathering.units.block * float_width;
    units_ = sum(trained_, gathering.frozen);
    sums_ = times(gathering.units, gathering.gradient);
    shared_ = request.tied ? units_.embedding : 0;
    shared_sum_ = request.tied ? sums_.embedding : 0;
    under_way_ = under_way(gathering);
  }

  // The embedding is computed, the first block arrives.
  std::int64_t embedding() const { return bytes(units_.embedding + units_.block, 0); }
  // The last block is computed, the last unit arrives; a tied embedding stays for the head.
  std::int64_t forward() const { return bytes(shared_ + kept(request_.layers, 1) + units_.last, 0); }
  // The block before it is computed, and the last one arrives.
  std::int64_t forward_before() const { return bytes(shared_ + kept(request_.layers, 2), 0); }
  // The head is computed; the last block has stayed.
  std::int64_t loss() const {
    return bytes(shared_ + units_.last + kept(request_.layers, 1), shared_sum_ + sums_.last);
  }
  // The last block is computed, the one before it arrives; the last unit is being reduced.
  std::int64_t last_block() const { return bytes(kept(request_.layers, 2), shared_sum_ + sums_.block + sums_.last); }
  // The block before it is computed, and the last one is being reduced.
  std::int64_t block_before() const { return bytes(kept(request_.layers - 1, 2), shared_sum_ + 2 * sums_.block); }
  std::int64_t first_block() const {
    const std::int64_t reduced = request_.layers > 1 ? sums_.block : sums_.last;
    return bytes(units_.block, shared_sum_ + sums_.block + reduced);
  }
  std::int64_t embedding_gradient() const { return bytes(0, sums_.embedding + sums_.block); }

  // On CPU ranks what is trained of a unit that has arrived is flat and in panels for a moment, between two being
  // computed, while the next one arrives: the last block, the last unit, and in the backward pass the block before the
  // last.
  std::int64_t packing_block() const {
    return bytes(shared_ + kept(request_.layers, 1) + trained_.block + units_.last, 0);
  }
  std::int64_t packing_last() const {
    return bytes(shared_ + kept(request_.layers, 1) + units_.last + trained_.last, 0);
  }
  std::int64_t packing_before() const {
    if (request_.gathering && request_.gathering->keeps) return 0;  // it is already there
    return bytes(kept(request_.layers - 1, 2) + trained_.block, shared_sum_ + sums_.block);
  }

 private:
  // How many of the first `blocks` blocks are present: all of them, or the last `visited`.
  std::int64_t kept(std::int64_t blocks, std::int64_t visited) const {
    const bool all = request_.gathering && request_.gathering->keeps;
    return units_.block * (all ? blocks : std::min(blocks, visited));
  }
  std::int64_t bytes(std::int64_t parameters, std::int64_t gradients) const {
    return request_.gathering ? parameters + gradients + under_way_ : 0;
  }
  // Parts from the host's memory, and those that are added to the sum of the passes before.
  std::int64_t under_way(const Gathering& gathering) const {
    if (!gathering.from_host && request_.gradients_stay) return 0;
    const auto part = [&](std::int64_t of) { return (of + gathering.shards - 1) / gathering.shards; };
    return std::max(part(gathering.units.largest()) * std::max<std::int64_t>(request_.types.compute, gathering.gradient),
                    part(gathering.frozen.largest()));
  }

  const StepRequest& request_;
  UnitSizes trained_, units_, sums_;  // parameters that are trained, all of them, sums of gradients
  std::int64_t shared_ = 0;           // the embedding, if the head reads it, too
  std::int64_t shared_sum_ = 0;
  std::int64_t under_way_ = 0;
};

}  // namespace

// The sums of gradients exist from the start, and are counted with the states. From the loss on there are the last
// block's output, the normed rows and the gradients of both.
std::vector<Moment> muster_training(const StepRequest& request) {
  const StepBytes bytes(request);
  const WholeUnits whole(request);
  const std::int64_t kept = bytes.kept(), again = bytes.tape() - kept, tables = bytes.tables();
  const std::int64_t all = tables + request.layers * kept;
  const std::int64_t of_block = again + 5 * bytes.stream() + bytes.backward();
  std::vector<Moment> moments;
  if (request.has_embedding) moments.push_back({"embedding", {tables + bytes.stream(), 0, 0, 0, whole.embedding()}});
  const bool several = request.layers > 1;
  if (several)
    moments.push_back({"forward pass", {all - kept + again + bytes.forward(), 0, 0, 0, whole.forward_before()}});
  moments.push_back({"forward pass", {all + again + bytes.forward(), 0, 0, 0, whole.forward()}});
  if (request.has_head)
    moments.push_back(
        {"backward pass of the loss", {all + 3 * bytes.stream() + bytes.head(), bytes.logits(), 0, 0, whole.loss()}});
  moments.push_back({"backward pass of the last block", {all + of_block, 0, 0, 0, whole.last_block()}});
  if (several)
    moments.push_back(
        {"backward pass of the block before the last", {all - kept + of_block, 0, 0, 0, whole.block_before()}});
  moments.push_back({"backward pass of the first block", {tables + kept + of_block, 0, 0, 0, whole.first_block()}});
  moments.push_back(
      {"backward pass of the embedding", {tables + 5 * bytes.stream(), 0, 0, 0, whole.embedding_gradient()}});
  if (!request.on_cpu || !request.gathering) return moments;
  moments.push_back({"gathering of the last block", {all - kept + bytes.stream(), 0, 0, 0, whole.packing_block()}});
  moments.push_back({"gathering of the head", {all + bytes.stream(), 0, 0, 0, whole.packing_last()}});
  if (several)
    moments.push_back(
        {"gathering of the block before the last", {all - kept + 5 * bytes.stream(), 0, 0, 0, whole.packing_before()}});
  return moments;
}

std::int64_t muster_cached_tokens(std::int64_t sequence) {
  return (sequence + cache_block - 1) / cache_block * cache_block;
}

// The cache is made at the start, for scoring as for answers. At the end of a block all its temporaries exist.
std::vector<Moment> muster_inference(const StepRequest& request, std::int64_t new_tokens) {
  const std::int64_t width = request.types.compute, tokens = request.batch * request.sequence;
  const AdapterRanks ranks = request.adapters ? request.adapters->ranks : AdapterRanks{};
  // What comes through an adapter, and the sum that it is added to.
  const bool decomposed = request.adapters && request.adapters->decomposed;
  const std::int64_t scaled = decomposed ? request.intermediate * (3 + 2 * float_width / width) : 0;
  const std::int64_t through = ranks.largest() + (ranks.down > 0 ? 2 * request.hidden : 0) + scaled;
  const std::int64_t row =
      (3 * (request.hidden + request.query + request.intermediate) + 4 * request.kv + through) * width +
      request.heads * float_width;
  const std::int64_t drawn = new_tokens > 0 ? request.batch : std::min(tokens, most_drawn);
  const std::int64_t logits = request.has_head ? drawn * request.head_outputs * (width + float_width) : 0;
  const std::int64_t cache =
      2 * request.layers * request.kv * width * request.batch * muster_cached_tokens(request.sequence + new_tokens);
  const std::int64_t unpacked = request.on_cpu ? 0 : request.unpacked;
  return {{"reading the prompt", {std::min(tokens, most_read) * row + unpacked, logits, 0, cache, 0}},
          {"writing the last token", {request.batch * row, logits, 0, cache, 0}}};
}

}  // namespace muster::plan
