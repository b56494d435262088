// What training reads: tokens, and which of them are trained on.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace muster::data {

// Whose words are trained on: the assistant's, or what others say to them.
enum class Speaker : std::uint64_t { assistant, others };

// Tokens from begin up to, but not including end.
struct TokenSpan {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  Speaker speaker = Speaker::assistant;

  bool operator==(const TokenSpan&) const = default;
};

// Spans are in order, apart from each other and none is empty; none holds the first token, which nothing precedes.
struct Sample {
  std::vector<std::int32_t> tokens;
  std::vector<TokenSpan> trained;
  // An answer that is judged by itself has 1 where it is desired; the better text of two the bits of a float32, by how much
  // its score is to be ahead.
  std::uint32_t label = 0;

  bool operator==(const Sample&) const = default;
};

// The same in place, in a dataset.
struct SampleView {
  std::span<const std::int32_t> tokens;
  std::span<const TokenSpan> trained;
  std::uint32_t label = 0;
};

struct SampleCounts {
  std::int64_t samples = 0;
  std::int64_t tokens = 0;
  std::int64_t trained_tokens = 0;
  std::int64_t reply_tokens = 0;  // of them, what others say
  std::int64_t cut = 0;          // samples that were longer than sequence_length and lost their end
  std::int64_t dropped = 0;      // samples that had no token to train on, and are not among the samples
  std::int64_t token_limit = 0;  // one more than the largest token
  std::int64_t longest = 0;      // tokens of the longest sample
  std::int64_t conversations = 0;  // rows with messages
  std::int64_t split = 0;          // conversations that became one sample for each answer
  std::int64_t trajectories = 0;   // rows with observations and actions that are learnt from
  std::int64_t poor = 0;           // likewise left out: they earned too little, or an unknown reward
  std::int64_t older = 0;          // likewise left out: enough came after them

  bool operator==(const SampleCounts&) const = default;
};

}  // namespace muster::data
