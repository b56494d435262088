// Steps that write one token of every sequence, recorded once on a GPU and replayed: the host submits a whole step with
// one copy and one call. Equally many numbers stand for different batches, so that a record serves every batch of about
// its size.
#pragma once

#include <memory>

#include "model/causal_model.hpp"

namespace muster::generate {

class DecodeGraphs {
 public:
  virtual ~DecodeGraphs() = default;
  // For a batch of single rows with a cache: [rows, vocabulary], valid until the next call.
  virtual at::Tensor logits(const model::Batch& batch) = 0;
};

// nullptr where steps cannot be recorded: no GPU, or rotary angles that depend on more than positions. All must outlive
// the result. longest: the most tokens of a sequence.
std::unique_ptr<DecodeGraphs> make_decode_graphs(model::CausalModel& model, const tensor::DeviceOps& ops,
                                                 model::KeyValueCache& cache, std::int64_t longest);

}  // namespace muster::generate
