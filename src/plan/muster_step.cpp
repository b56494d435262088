// The step of muster's own engine: fused norm, rope and gate, attention in tiles, a loss that never holds all logits.
// Closed forms, term by term in docs/memory-model.md.
#include <algorithm>

#include "plan/step_moments.hpp"

namespace muster::plan {
namespace {

constexpr std::int64_t wide = 4;
// Tokens whose logits are alive at once while the loss is computed.
constexpr std::int64_t loss_chunk = 2048;
// Of the engine's generator: rows that are read in one step, rows whose logits are alive at once while texts are
// scored, tokens of a block of the cache.
constexpr std::int64_t most_read = 2048;
constexpr std::int64_t most_drawn = 128;
constexpr std::int64_t cache_block = 64;

struct StepBytes {
  explicit StepBytes(const StepRequest& request)
      : tokens(request.batch * request.sequence),
        width(request.types.compute),
        stream(tokens * request.hidden * width) {
    const std::int64_t per_token = 4 * request.hidden + 2 * request.query + 2 * request.kv + 3 * request.intermediate;
    saved_block = tokens * (per_token * width + request.heads * wide);
    if (request.attention == spec::Attention::eager)
      saved_block += tokens * request.sequence * request.heads * (width + wide);
    if (request.adapters) saved_block += tokens * request.adapters->rank * 7 * wide;
    working = tokens * (2 * request.hidden + 3 * request.intermediate) * width;
    attention_gradient = tokens * (request.query * (2 * wide + width) + 2 * request.kv * width);
    const std::int64_t chunk = std::min(tokens, loss_chunk);
    logits = chunk * request.vocabulary * (width + wide);
  }

  std::int64_t tokens;
  std::int64_t width;
  std::int64_t stream;  // the residual stream between two blocks
  std::int64_t saved_block = 0;
  std::int64_t working = 0;
  std::int64_t attention_gradient = 0;
  std::int64_t logits = 0;
};

std::int64_t block_parameters(const StepRequest& request) {
  return request.hidden * (2 * request.query + 2 * request.kv + 3 * request.intermediate);
}

}  // namespace

std::vector<Moment> muster_training(const StepRequest& request) {
  const StepBytes bytes(request);
  const std::int64_t kept = request.checkpointing ? bytes.stream : bytes.saved_block;
  const std::int64_t again = request.checkpointing ? bytes.saved_block : 0;
  const std::int64_t per_gradient = request.adapters || !request.gradients_stay ? 0 : request.types.compute;
  const std::int64_t of_block = block_parameters(request) * per_gradient;
  const std::int64_t of_head = request.has_head ? request.vocabulary * request.hidden * per_gradient : 0;
  const std::int64_t of_embedding =
      request.has_embedding && !request.tied ? request.vocabulary * request.hidden * per_gradient : 0;
  const std::int64_t backward = again + std::max(bytes.working, bytes.attention_gradient) + 2 * bytes.stream;
  const std::int64_t all = request.layers * kept;
  std::vector<Moment> moments;
  moments.push_back({"forward pass", {all + bytes.working + bytes.stream, 0, 0, 0}});
  if (request.has_head)
    moments.push_back({"backward pass of the loss", {all + 3 * bytes.stream, bytes.logits, of_head, 0}});
  moments.push_back({"backward pass of the last block", {all + backward, 0, of_head + of_block, 0}});
  moments.push_back({"backward pass of the first block", {kept + backward, 0, of_head + request.layers * of_block, 0}});
  moments.push_back(
      {"backward pass of the embedding", {2 * bytes.stream, 0, of_head + request.layers * of_block + of_embedding, 0}});
  return moments;
}

std::int64_t muster_cached_tokens(std::int64_t sequence) {
  return (sequence + cache_block - 1) / cache_block * cache_block;
}

// The cache is made at the start, for scoring as for answers. Of a block's temporaries all are there at its end.
std::vector<Moment> muster_inference(const StepRequest& request, std::int64_t new_tokens) {
  const std::int64_t width = request.types.compute, tokens = request.batch * request.sequence;
  const std::int64_t row =
      (3 * (request.hidden + request.query + request.intermediate) + 4 * request.kv) * width + request.heads * wide;
  const std::int64_t drawn = new_tokens > 0 ? request.batch : std::min(tokens, most_drawn);
  const std::int64_t logits = request.has_head ? drawn * request.vocabulary * (width + wide) : 0;
  const std::int64_t cache =
      2 * request.layers * request.kv * width * request.batch * muster_cached_tokens(request.sequence + new_tokens);
  return {{"reading the prompt", {std::min(tokens, most_read) * row, logits, 0, cache}},
          {"writing the last token", {request.batch * row, logits, 0, cache}}};
}

}  // namespace muster::plan
