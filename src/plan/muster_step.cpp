// The step of muster's own engine: fused norm, rope and gate, attention in tiles, a loss that never holds all logits.
// Closed forms, term by term in docs/memory-model.md.
#include <algorithm>

#include "plan/step_moments.hpp"

namespace muster::plan {
namespace {

constexpr std::int64_t float_width = 4;
// Rows whose logits are alive at once while the loss is computed (engine/train/supervised.cpp).
constexpr std::int64_t loss_rows_on_gpu = 2048;
constexpr std::int64_t loss_rows_on_cpu = 256;
// In the engine's generator: rows that are read in one step, rows whose logits are alive at once while texts are
// scored, tokens in a block of the cache.
constexpr std::int64_t most_read = 2048;
constexpr std::int64_t most_drawn = 128;
constexpr std::int64_t cache_block = 64;
// Whole numbers that a pass has for each token: itself, its position, whether and for what it is trained.
constexpr std::int64_t pass_numbers = 4;
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
    return tokens_ * (numbers(4, 3, 4, gated_ ? 2 : 1) * width_ + request_.heads * float_width) + adapted();
  }
  // The part of it that stays until then.
  std::int64_t kept() const {
    if (request_.recomputation == spec::Recomputation::full) return stream();
    if (request_.recomputation == spec::Recomputation::none) return tape();
    return tokens_ * (numbers(2, 2, 2, gated_ ? 2 : 1) * width_ + request_.heads * float_width) + adapted();
  }
  // Rotary tables, float32, and what a pass knows about each token.
  std::int64_t tables() const {
    const std::int64_t rotary = turned_ ? request_.query / std::max<std::int64_t>(request_.heads, 1) * float_width : 0;
    return tokens_ * (rotary + pass_numbers * 8);
  }

  // In addition to the tape while a block is computed: its output and the activated values, or what attention or the
  // activation need for a moment.
  std::int64_t forward() const {
    const std::int64_t raised = gated_ || request_.on_cpu ? 0 : tokens_ * request_.intermediate * 2 * float_width;
    return std::max({tokens_ * numbers(1, 0, 0, 1) * width_, score_bytes(), raised});
  }
  // In addition to the tape and the incoming gradient.
  std::int64_t backward() const { return std::max(feed_forward(), stream() + attention()) + product_of_block(); }

  std::int64_t loss_rows() const { return std::min(tokens_, request_.on_cpu ? loss_rows_on_cpu : loss_rows_on_gpu); }
  // Replaced by their gradient in place; exact sums on GPUs read rows that begin at a cache line, and copy others.
  std::int64_t logits() const { return loss_rows() * request_.vocabulary * width_ * (adds_products() ? 2 : 1); }
  // In addition to them: the gradient of the rows, and what is added to the head's sum.
  std::int64_t head() const {
    return loss_rows() * request_.hidden * width_ +
           (adds_products() ? request_.vocabulary * request_.hidden * float_width : 0);
  }

 private:
  std::int64_t numbers(std::int64_t hidden, std::int64_t query, std::int64_t kv, std::int64_t intermediate) const {
    return hidden * request_.hidden + query * request_.query + kv * request_.kv + intermediate * request_.intermediate;
  }
  std::int64_t adapted() const { return request_.adapters ? tokens_ * request_.adapters->rank * 7 * float_width : 0; }

  std::int64_t feed_forward() const {
    if (gated_) return tokens_ * std::max(numbers(0, 0, 0, 3), numbers(2, 0, 0, 2)) * width_;
    // An activation that has no kernel of its own is differentiated by the library, in float32.
    const std::int64_t slope = request_.on_cpu ? width_ : (width_ == float_width ? 3 : 4) * float_width;
    return tokens_ * (numbers(2, 0, 0, 1) * width_ + request_.intermediate * slope);
  }

  std::int64_t attention() const {
    const std::int64_t after = numbers(2, turned_ ? 4 : 3, turned_ ? 5 : 4, 0) * width_;
    const std::int64_t sums = request_.on_cpu ? 0 : request_.query * float_width + request_.heads * float_width;
    const std::int64_t repeated = request_.grouped && !request_.on_cpu ? 2 * request_.query * width_ : 0;
    const std::int64_t inside = numbers(0, 2, 2, 0) * width_ + sums + repeated;
    return std::max(tokens_ * after, tokens_ * inside + score_bytes());
  }

  // float32 on a GPU has no packed attention: a sequence at a time, by plain products where heads are grouped or the
  // order of sums is fixed.
  std::int64_t score_bytes() const {
    const bool plain = !request_.on_cpu && width_ == float_width && (request_.grouped || request_.exact);
    return plain ? score_tables * request_.heads * request_.sequence * request_.sequence * float_width : 0;
  }

  // Exact sums on GPUs take a product that was computed separately.
  bool adds_products() const { return request_.exact && !request_.on_cpu; }
  std::int64_t product_of_block() const {
    if (!adds_products()) return 0;
    const std::int64_t widest = std::max(request_.query + 2 * request_.kv, (gated_ ? 2 : 1) * request_.intermediate);
    return request_.hidden * widest * float_width;
  }

  const StepRequest& request_;
  std::int64_t tokens_;
  std::int64_t width_;
  bool gated_;
  bool turned_;  // queries and keys, by their positions
};

// The units that are whole at a moment, and their gradients, for a model whose ranks hold parts.
class WholeUnits {
 public:
  explicit WholeUnits(const StepRequest& request) : request_(request) {
    if (!request.gathering) return;
    const Gathering& gathering = *request.gathering;
    units_ = gathering.units;
    shared_ = request.tied ? units_.embedding : 0;
  }

  // The embedding is computed, the first block arrives.
  std::int64_t embedding() const { return bytes(units_.embedding + units_.block, 0); }
  // The last block is computed, the last unit arrives; a tied embedding stays for the head.
  std::int64_t forward() const { return bytes(shared_ + kept(request_.layers, 1) + units_.last, 0); }
  // The block before it is computed, and the last one arrives.
  std::int64_t forward_before() const { return bytes(shared_ + kept(request_.layers, 2), 0); }
  // The head is computed; the last block has stayed.
  std::int64_t loss() const { return bytes(shared_ + units_.last + kept(request_.layers, 1), shared_ + units_.last); }
  // The last block is computed, the one before it arrives; the last unit is being reduced.
  std::int64_t last_block() const { return bytes(kept(request_.layers, 2), shared_ + units_.block + units_.last); }
  // The block before it is computed, and the last one is being reduced.
  std::int64_t block_before() const { return bytes(kept(request_.layers - 1, 2), shared_ + 2 * units_.block); }
  std::int64_t first_block() const {
    const std::int64_t reduced = request_.layers > 1 ? units_.block : units_.last;
    return bytes(units_.block, shared_ + units_.block + reduced);
  }
  std::int64_t embedding_gradient() const { return bytes(0, units_.embedding + units_.block); }

  // On CPU ranks a unit that has arrived is flat and in panels for a moment, between two being computed, while the next
  // one arrives: the last block, the last unit, and in the backward pass the block before the last.
  std::int64_t packing_block() const {
    return bytes(shared_ + kept(request_.layers, 1) + units_.block + units_.last, 0);
  }
  std::int64_t packing_last() const { return bytes(shared_ + kept(request_.layers, 1) + 2 * units_.last, 0); }
  std::int64_t packing_before() const {
    if (request_.gathering && request_.gathering->keeps) return 0;  // it is already there
    return bytes(kept(request_.layers - 1, 2) + units_.block, shared_ + units_.block);
  }

 private:
  // Parameters present of the first `blocks` blocks: those of all of them, or of the last `visited`.
  std::int64_t kept(std::int64_t blocks, std::int64_t visited) const {
    const bool all = request_.gathering && request_.gathering->keeps;
    return units_.block * (all ? blocks : std::min(blocks, visited));
  }
  std::int64_t bytes(std::int64_t parameters, std::int64_t gradients) const {
    if (!request_.gathering) return 0;
    const Gathering& gathering = *request_.gathering;
    const std::int64_t width = request_.types.compute;
    const std::int64_t largest = std::max({units_.embedding, units_.block, units_.last});
    // Parts from the host's memory, and those that are added to the sum of the passes before.
    const std::int64_t under_way =
        gathering.from_host || !request_.gradients_stay
            ? (largest + gathering.shards - 1) / gathering.shards * std::max(width, gathering.gradient)
            : 0;
    return parameters * width + gradients * gathering.gradient + under_way;
  }

  const StepRequest& request_;
  UnitSizes units_;
  std::int64_t shared_ = 0;  // the embedding, if the head reads it, too
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
  const std::int64_t row = (3 * (request.hidden + request.query + request.intermediate) + 4 * request.kv) * width +
                           request.heads * float_width;
  const std::int64_t drawn = new_tokens > 0 ? request.batch : std::min(tokens, most_drawn);
  const std::int64_t logits = request.has_head ? drawn * request.vocabulary * (width + float_width) : 0;
  const std::int64_t cache =
      2 * request.layers * request.kv * width * request.batch * muster_cached_tokens(request.sequence + new_tokens);
  return {{"reading the prompt", {std::min(tokens, most_read) * row, logits, 0, cache, 0}},
          {"writing the last token", {request.batch * row, logits, 0, cache, 0}}};
}

}  // namespace muster::plan
