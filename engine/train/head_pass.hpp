// Final norm and head of the rows of a micro-batch that are trained on, a part of them at a time: the logits of all
// rows are never there at once.
//
// Note [Rows of the head]
// Rows that are trained on are cut, sequence by sequence, into pieces of a fixed size from the sequence's first one,
// and the head takes as many pieces at a time as make about that size. What an exact sum takes as one term follows from
// the sequence alone.
#pragma once

#include <cstdint>
#include <vector>

#include "data/micro_batch.hpp"
#include "model/causal_model.hpp"

namespace muster::train {

// For one micro-batch, while the head's parameters are there (CausalModel::use_head).
class HeadPass {
 public:
  // All must outlive this. hidden: what the model's blocks gave, of all rows. pinned: indices go to a GPU from pinned
  // memory.
  HeadPass(const data::MicroBatch& batch, const at::Tensor& hidden, model::CausalModel& model, tensor::DeviceOps& ops,
           bool pinned, double temperature);

  // ln of the probability of each trained row's target: float32 [trained rows].
  at::Tensor log_probabilities();
  // What the head for scores gives of each trained row: float32 [trained rows, outputs].
  at::Tensor scores();
  // What is differentiated: Σ tokens[row] · loss[row] − Σ entropies[row] · entropy[row] + Σ scores[row, output] ·
  // score[row, output]. Undefined: nothing.
  struct Weights {
    at::Tensor tokens;     // float32 [trained rows]
    at::Tensor entropies;  // likewise, where tokens have weights
    at::Tensor scores;     // float32 [trained rows, outputs]
  };
  struct Backward {
    at::Tensor log_probabilities;  // where tokens have weights
    at::Tensor entropies;          // where these do
    at::Tensor normed_gradient;    // of the final norm's result, of all hidden rows
  };
  // Adds the heads' gradients.
  Backward backward(const Weights& weights, model::ParameterAccess& access);

 private:
  // Pieces that go through the head together.
  struct Part {
    std::int64_t first = 0;
    std::int64_t count = 0;
    std::vector<std::int64_t> pieces;  // rows of each
  };
  static std::vector<Part> cut(const data::MicroBatch& batch, std::int64_t size);
  at::Tensor bring(const std::vector<std::int64_t>& values, bool pinned) const;

  const at::Tensor& hidden_;
  model::CausalModel& model_;
  tensor::DeviceOps& ops_;
  double temperature_;
  at::Tensor rows_, targets_;  // of the trained rows
  at::Tensor normed_;          // [trained rows, hidden]
  std::vector<Part> parts_;
};

}  // namespace muster::train
