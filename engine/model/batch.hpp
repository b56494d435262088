// What one forward pass computes: rows of several sequences one after another, no padding anywhere.
#pragma once

#include <cstdint>
#include <vector>

namespace muster::model {

class CachedSequence;

// Consecutive tokens of one sequence.
struct SequencePart {
  std::int64_t rows = 0;
  std::int64_t position = 0;     // of the first of them
  std::int64_t rope_length = 0;  // the length that rotary embeddings which depend on one are made for
  const CachedSequence* cached =
      nullptr;  // where earlier keys are and these go; nullptr: position is 0, nothing is kept
};

struct Batch {
  std::vector<std::int64_t> tokens;  // of all parts
  std::vector<SequencePart> parts;

  std::int64_t rows() const { return static_cast<std::int64_t>(tokens.size()); }
};

}  // namespace muster::model
