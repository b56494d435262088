// The norm of all gradients, whatever parts of them lie on this rank.
#pragma once

#include "parallel/strategy.hpp"
#include "tensor/training_ops.hpp"

namespace muster::train {

// Its square, after finish_gradients(). For exact sums it is the same however they are cut. learning: of the device
// where the shards lie. All ranks call it.
double squared_norm(parallel::Strategy& strategy, tensor::TrainingOps& training);

}  // namespace muster::train
