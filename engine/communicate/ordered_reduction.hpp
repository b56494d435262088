// The reduction of tensors in the order in which they are given, so that the same values give the same bits.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "communicate/communicator.hpp"

namespace muster::communicate {

// parts: at least one, of one shape and type. Those of 16-bit types are reduced in float32 and rounded once.
at::Tensor reduce_in_order(std::span<const at::Tensor> parts, Reduction reduction);

}  // namespace muster::communicate
