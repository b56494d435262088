// The norm of all gradients, whatever parts of them lie on this rank.
#pragma once

#include "parallel/strategy.hpp"
#include "tensor/learning.hpp"

namespace muster::train {

// Its square, after finish_gradients(). Of exact sums the same number however they are cut. learning: of where the
// shards lie. All ranks call it.
double squared_norm(parallel::Strategy& strategy, tensor::Learning& learning);

}  // namespace muster::train
