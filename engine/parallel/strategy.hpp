// How the training state of one model is laid over ranks. The loop, the optimizer and checkpoints know shards alone.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "communicate/communicator.hpp"
#include "model/causal_model.hpp"
#include "model/parameter_access.hpp"
#include "parallel/collective_queue.hpp"
#include "parallel/flat_layout.hpp"

namespace muster::parallel {

// The part of a unit's parameters that this rank steps.
struct Shard {
  at::Tensor master;              // float32 or bfloat16, flat
  tensor::GradientSum gradient;   // over all ranks and passes, once finish_gradients() has returned
  std::vector<FlatPiece> pieces;  // what its elements are; offsets within the shard
};

// A copy of the training state lies on consecutive ranks, on each of them one part; with several copies the first one
// is on the first ranks. Every unit is cut into as many parts, all of one length.
struct ShardPlace {
  int part = 0;
  int parts = 1;
  int copy = 0;
  int copies = 1;
};

class Strategy : public model::ParameterAccess {
 public:
  virtual ShardPlace place() const = 0;
  // How the whole units are laid out, by unit.
  virtual std::span<const FlatLayout> layouts() const = 0;
  // This rank's part of each, by unit.
  virtual std::span<const Shard> shards() const = 0;
  // own: int64 [n], of which each part has its own → [parts, n], by part.
  virtual at::Tensor of_all_parts(const at::Tensor& own) = 0;
  // Gradients are 0 from here on.
  virtual void begin_step() = 0;
  // The pass that follows is the step's last one: what it completes can be summed over the ranks.
  virtual void begin_last_pass() = 0;
  // Sums what is not summed yet, and waits for all of it.
  virtual void finish_gradients() = 0;
  // Times of the exchanges since the last call; only after finish_gradients().
  virtual CommunicationTime take_communication_time() = 0;
  // Throws what went wrong in an exchange whose numbers have been waited for: a GPU may have carried it out later.
  virtual void check_ranks() const = 0;
  // The model has memory and numbers for the unit's frozen parameters: what of it this rank does not keep is let go of.
  virtual void take_frozen(model::UnitId unit) = 0;
  // The masters have new numbers: the model computes with them from here on.
  virtual void publish() = 0;
};

// Every rank holds everything, and gradients are summed over ranks while the backward pass goes on. With one rank there
// is nothing to sum. exact: sums are exact ones (tensor/gradient_sum.hpp). state: type of masters, and of sums that are
// not exact; float32 or bfloat16. All must outlive the strategy.
std::unique_ptr<Strategy> make_replicas(model::CausalModel& model, tensor::DeviceOps& ops,
                                        communicate::Communicator& ranks, bool exact,
                                        at::ScalarType state = at::kFloat);
// Whether masters of such replicas are the parameters that the model computes with, which then needs no memory of its
// own for these.
bool replicas_share_masters(const tensor::DeviceOps& ops, at::ScalarType state);

// The ranks that a sharded state is laid over.
struct ShardRanks {
  communicate::Communicator& of_copy;            // those that hold a copy together
  communicate::Communicator* of_part = nullptr;  // those that hold the same part of other copies; nullptr: none do
};

struct ShardOptions {
  bool keeps_parameters = false;      // a unit that was gathered stays until its last visit of a pass (shard_grad_op)
  bool offload = false;               // shards lie in the host's memory
  bool exact = false;                 // sums are exact ones
  at::ScalarType state = at::kFloat;  // as in make_replicas
};

// Each rank of a copy holds one part of every unit, of its frozen parameters as well. A unit's parameters are gathered before it is visited, while the
// unit before it is computed, and let go of afterwards; its gradients are whole on a rank until the unit is complete,
// and then each rank gets the sum of its part. The model, which needs no memory of its own for parameters, lives in the
// strategy from then on. All must outlive it.
std::unique_ptr<Strategy> make_shards(model::CausalModel& model, tensor::DeviceOps& ops, ShardRanks ranks,
                                      const ShardOptions& options);

}  // namespace muster::parallel
