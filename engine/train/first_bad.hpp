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

// The memory of exact sums as plain ones, for passes that look for a bad number: an exact sum cannot hold it. Nothing
// is summed over ranks.
class PlainGradients final : public model::Residence {
 public:
  // It must outlive this.
  explicit PlainGradients(parallel::Strategy& strategy) : strategy_(strategy) {}

  void enter(model::UnitId unit) override { strategy_.enter(unit); }
  void leave(model::UnitId unit) override { strategy_.leave(unit); }
  tensor::GradientSum gradient(model::ParameterId parameter) override;
  void gradients_complete(model::UnitId) override {}

 private:
  parallel::Strategy& strategy_;
};

// Of this rank's own numbers, after passes with PlainGradients. The first in the order of a pass: parameters, then the
// loss, then gradients from the head on.
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
