// Steps the masters of a model by their gradients. It knows shards alone: element by element, so that the result does
// not depend on how parameters are laid over ranks.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "parallel/strategy.hpp"
#include "spec/values.hpp"
#include "tensor/training_ops.hpp"

namespace muster::optimizer {

struct OptimizerSettings {
  spec::OptimizerKind kind = spec::OptimizerKind::adamw;
  double weight_decay = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double momentum = 0.9;  // of sgd_momentum
};

// Which tensors of a shard a state has numbers of, and where these lie.
enum class StateExtent {
  shard,  // of all: the state is as long as the shard's master, and each element lies where the master's does
  plain,  // of those without 8-bit states: one after another
  coded,  // of those with 8-bit states: one after another
};

// What the optimizer remembers: a flat tensor for each shard. What its numbers are follows from its name
// (checkpoint::form_of).
struct OptimizerState {
  std::string name;  // "first_moment"
  std::vector<at::Tensor> of_shards;
  StateExtent extent = StateExtent::shard;
};

// The numbers that a state has of a part of a unit whose pieces are these: with offsets in the state's flat tensor,
// first and count in numbers.
std::vector<parallel::FlatPiece> numbers_of(const OptimizerState& state, model::UnitId unit,
                                            const std::vector<parallel::FlatPiece>& pieces);

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual std::span<const OptimizerState> states() const = 0;
  // number: of this update, from 1; steps that were skipped do not count. gradient_scale: see tensor::AdamWStep.
  virtual void step(std::int64_t number, double rate, double gradient_scale) = 0;
};

// Both must outlive it.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerSettings& settings, tensor::TrainingOps& training,
                                          const parallel::Strategy& strategy);

}  // namespace muster::optimizer
