// One step of generation as plain values: what a forward pass computes, and which tokens are chosen from it. The
// scheduler writes it, a StepRunner carries it out, and it crosses from rank to rank where a model is split by layers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/batch.hpp"

namespace muster::generate {

// A token that is chosen from one row's logits, or looked up in them.
struct Draw {
  std::int64_t row = 0;                    // of the batch; several draws may share one
  double uniform = 0;                      // chance, from 0 up to 1
  std::optional<std::int32_t> given = {};  // this token's log-probability is asked for; nothing is chosen
  std::vector<std::int32_t> seen = {};     // prompt and answer so far, where a repetition penalty looks at them

  bool operator==(const Draw&) const = default;
};

struct Step {
  std::vector<model::BlockMove> moves;  // in the cache, before anything else, in this order
  model::Batch batch;
  std::vector<Draw> draws;

  bool operator==(const Step&) const = default;
};

}  // namespace muster::generate
