// How the training state of one model is laid over ranks. The loop, the optimizer and checkpoints know shards alone.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "communicate/communicator.hpp"
#include "model/causal_model.hpp"
#include "model/residence.hpp"
#include "parallel/flat_layout.hpp"

namespace muster::parallel {

// The part of a unit's parameters that this rank steps.
struct Shard {
  at::Tensor master;              // float32, flat
  tensor::GradientSum gradient;   // over all ranks and passes, once finish_gradients() has returned
  std::vector<FlatPiece> pieces;  // what its elements are; offsets within the shard
};

class Strategy : public model::Residence {
 public:
  virtual std::span<const Shard> shards() const = 0;
  // Gradients are 0 from here on.
  virtual void begin_step() = 0;
  // The pass that follows is this rank's last one of the step: what it completes can be summed over the ranks.
  virtual void begin_last_pass() = 0;
  // Sums what is not summed yet, and waits for all of it. Also where this rank had no pass.
  virtual void finish_gradients() = 0;
  // The masters have new numbers: the model computes with them from here on.
  virtual void publish() = 0;
};

// Every rank holds everything, and gradients are summed over ranks while the backward pass goes on. With one rank there
// is nothing to sum. exact: sums are exact ones (tensor/gradient_sum.hpp). All must outlive the strategy.
std::unique_ptr<Strategy> make_replicas(model::CausalModel& model, tensor::Arithmetic& arithmetic,
                                        communicate::Communicator& ranks, bool exact);

}  // namespace muster::parallel
