// Which tensor was the first to hold something that is no number.
#pragma once

#include <optional>

#include "communicate/communicator.hpp"
#include "train/state_tensors.hpp"

namespace muster::train {

struct BadTensor {
  enum class Kind { none, parameter, loss, gradient };
  Kind kind = Kind::none;
  std::int64_t tensor = 0;  // in StateTensors::tensors(); not of a loss
};

// Of this rank's own numbers, after a backward pass whose gradients were not summed over ranks. The first in the order
// of a pass: parameters, then the loss, then gradients from the head on.
BadTensor first_bad(const StateTensors& state, const parallel::Strategy& strategy, bool bad_loss);

struct BadOnRank {
  int rank = 0;
  BadTensor bad;
};
// The lowest rank that found something; absent: none did. All ranks call it.
std::optional<BadOnRank> agree_on_bad(const BadTensor& own, communicate::Communicator& ranks, at::Device device);

// "the gradient of model.layers.3.mlp.down_proj.weight"
std::string describe(const BadTensor& bad, const StateTensors& state);

}  // namespace muster::train
