// What one forward pass computes: rows of several sequences one after another, no padding anywhere.
#pragma once

#include <cstdint>
#include <vector>

namespace muster::model {

// Consecutive tokens of one sequence.
struct SequencePart {
  std::int64_t rows = 0;
  std::int64_t position = 0;     // of the first of them
  std::int64_t rope_length = 0;  // the length that rotary embeddings which depend on one are made for
  // Cache blocks where earlier keys are and these go: position p in blocks[p / block_tokens]. Empty: position is 0 and
  // nothing is kept.
  std::vector<std::int64_t> blocks = {};
  std::int64_t adapter = 0;  // its number among the model's; -1: none

  bool operator==(const SequencePart&) const = default;
};

struct Batch {
  std::vector<std::int64_t> tokens;  // of all parts
  std::vector<SequencePart> parts;

  std::int64_t rows() const { return static_cast<std::int64_t>(tokens.size()); }
  bool operator==(const Batch&) const = default;
};

// A block's contents to another place. Places in host memory are numbered by the caller that orders the moves; one that
// is moved from is free again.
struct BlockMove {
  enum class Kind { copy, to_host, from_host };
  Kind kind = Kind::copy;
  std::int64_t from = 0;
  std::int64_t to = 0;

  bool operator==(const BlockMove&) const = default;
};

}  // namespace muster::model
