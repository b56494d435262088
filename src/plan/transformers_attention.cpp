#include "plan/transformers_attention.hpp"

namespace muster::plan {
namespace {

constexpr int wide_width = 4;

std::int64_t tokens_of(const StepRequest& request) { return request.batch * request.sequence; }

// FlashAttention, cuDNN or the memory-efficient kernel: scores are never whole.
Tensor attend_in_tiles(EagerTape& tape, const StepRequest& request, const Tensor& query, const Tensor& key,
                       const Tensor& value) {
  const int width = request.types.compute;
  const Tensor q = query.width == width ? query : tape.cast(query, width);
  const Tensor k = key.width == width ? key : tape.cast(key, width);
  Tensor output = tape.make(q.elements, width);
  Bytes row_sums = tape.take(tokens_of(request) * request.heads * wide_width);
  const std::int64_t of_query = q.elements * width, of_key = k.elements * width;
  const std::int64_t workspace = q.elements * 2 * wide_width;
  return tape.record(
      output, {&q, &k, &value}, {q.data, k.data, value.data, output.data, std::move(row_sums)}, false,
      [&tape, of_query, of_key, workspace](Bytes gradient, std::vector<Bytes>& saved, std::vector<Bytes>& of_inputs) {
        of_inputs[0] = tape.take(of_query);
        of_inputs[1] = tape.take(of_key);
        of_inputs[2] = tape.take(of_key);
        static_cast<void>(tape.take(workspace));
        gradient.reset();
        saved.clear();
      });
}

std::int64_t score_elements(const StepRequest& request) {
  return tokens_of(request) * request.sequence * request.heads;
}

// PyTorch's own products and softmax: what SDPA falls back to for 4-byte numbers with grouped heads.
Tensor attend_by_products(EagerTape& tape, const StepRequest& request, const Tensor& query, const Tensor& key,
                          const Tensor&) {
  const std::int64_t of_query = query.elements * wide_width, of_key = key.elements * wide_width;
  const std::int64_t scores = score_elements(request) * wide_width;
  Bytes scaled_query = tape.take(of_query), scaled_keys = tape.take(2 * of_key);
  Bytes keys = tape.take(of_query), values = tape.take(of_query), queries = tape.take(of_query);
  Bytes probabilities;
  {
    const Bytes raw = tape.take(scores);
    probabilities = tape.take(scores);
    static_cast<void>(tape.take(score_elements(request)));
  }
  Tensor output = tape.make(query.elements, wide_width);
  scaled_query.reset();
  scaled_keys.reset();
  return tape.record(
      tape.make(query.elements, wide_width), {&query, &key, &key}, {keys, values, queries, probabilities}, false,
      [&tape, of_query, of_key, scores](Bytes gradient, std::vector<Bytes>& saved, std::vector<Bytes>& of_inputs) {
        of_inputs[0] = tape.take(of_query);
        Bytes of_values = tape.take(of_query);
        Bytes of_probabilities = tape.take(scores);
        gradient.reset();
        Bytes of_scores = tape.take(scores);
        static_cast<void>(tape.take(scores));
        of_probabilities.reset();
        saved.clear();
        of_inputs[1] = tape.take(of_key);
        of_inputs[2] = tape.take(of_key);
      });
}

// attn_implementation="eager": keys and values repeated, scores whole, softmax in 4-byte numbers.
Tensor attend_eagerly(EagerTape& tape, const StepRequest& request, const Tensor& query, const Tensor& key,
                      const Tensor& value) {
  const int width = request.types.compute;
  const Tensor q = query.width == width ? query : tape.cast(query, width);
  const std::int64_t of_query = q.elements * width, of_key = key.elements * width;
  const std::int64_t scores = score_elements(request);
  const bool narrow = width != wide_width && request.softmax_in_float32;  // softmax in 4-byte numbers
  Bytes keys = request.grouped ? tape.take(of_query) : key.data;
  Bytes values = request.grouped ? tape.take(of_query) : value.data;
  Bytes queries = tape.take(of_query);
  Bytes masked;
  {
    Bytes raw = tape.take(scores * width);
    masked = tape.take(scores * width);
    raw.reset();
    raw = tape.take(scores * width);
  }
  Bytes raised = narrow ? tape.take(scores * wide_width) : Bytes{};
  Bytes softmax = tape.take(scores * (narrow ? wide_width : width));
  raised.reset();
  const bool drops = request.dropout.attention > 0 && tape.recording();
  Bytes probabilities = narrow || drops ? tape.take(scores * width) : softmax;
  Bytes dropped = drops ? tape.take(scores) : Bytes{};
  masked.reset();
  { const Bytes product = tape.take(of_query); }
  return tape.record(tape.make(q.elements, width), {&q, &key, &value},
                     {keys, values, queries, softmax, probabilities, dropped}, false,
                     [&tape, of_query, of_key, scores, width, narrow](Bytes gradient, std::vector<Bytes>& saved,
                                                                      std::vector<Bytes>& of_inputs) {
                       of_inputs[0] = tape.take(of_query);
                       Bytes of_probabilities = tape.take(scores * width);
                       gradient.reset();
                       saved[4].reset();
                       if (narrow) of_probabilities = tape.take(scores * wide_width);
                       const int softmax_width = narrow ? wide_width : width;
                       Bytes of_scores = tape.take(scores * softmax_width);
                       static_cast<void>(tape.take(scores * softmax_width));
                       of_probabilities.reset();
                       saved.clear();
                       if (narrow) of_scores = tape.take(scores * width);
                       static_cast<void>(tape.take(scores * width));
                       of_inputs[1] = tape.take(of_key);
                       of_inputs[2] = tape.take(of_key);
                     });
}

}  // namespace

Tensor attend(EagerTape& tape, const StepRequest& request, const Tensor& query, const Tensor& key,
              const Tensor& value) {
  if (request.attention == spec::Attention::eager) return attend_eagerly(tape, request, query, key, value);
  const bool plain_kernel = request.types.compute == wide_width && request.grouped;
  return plain_kernel ? attend_by_products(tape, request, query, key, value)
                      : attend_in_tiles(tape, request, query, key, value);
}

}  // namespace muster::plan
