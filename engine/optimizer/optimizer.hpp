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

// What the optimizer remembers of each element: a flat tensor alongside each shard's master.
struct OptimizerState {
  std::string name;  // "first_moment"
  std::vector<at::Tensor> of_shards;
};

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
