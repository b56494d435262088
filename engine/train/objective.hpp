// What a pass is trained by: from the rows of a micro-batch to gradients. The loop does not know which.
#pragma once

#include "data/micro_batch.hpp"
#include "model/causal_model.hpp"

namespace muster::train {

struct PassOptions {
  double gradient_scale = 1;  // of the summed loss
  model::Recompute recompute = model::Recompute::nothing;
};

class Objective {
 public:
  virtual ~Objective() = default;
  // Forward and backward; gradients go to the residence. The exact sum of the losses (exact_loss.hpp).
  virtual at::Tensor learn(const data::MicroBatch& batch, const PassOptions& options, model::ParameterAccess& access) = 0;
  // Forward alone.
  virtual at::Tensor measure(const data::MicroBatch& batch) = 0;
};

// Cross-entropy of the trained tokens. Both must outlive it. pinned: targets go to a GPU from pinned memory.
std::unique_ptr<Objective> make_supervised(model::CausalModel& model, tensor::DeviceOps& ops, bool pinned);

}  // namespace muster::train
