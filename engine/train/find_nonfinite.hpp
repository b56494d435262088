// Which tensor was the first to hold something that is not a number.
#pragma once

#include <map>
#include <optional>

#include "communicate/communicator.hpp"
#include "train/state_tensors.hpp"

namespace muster::train {

struct BadTensor {
  // In the order of a pass.
  enum class Kind { none, parameter, loss, gradient };
  Kind kind = Kind::none;
  std::int64_t tensor = 0;  // in StateTensors::tensors(); not of a loss
};

// For passes that look for a bad number: plain gradients of this rank alone, each unit's dropped once it is complete
// and looked at. An exact sum could not hold such a number, and nothing is summed over ranks. Parameters are where
// the strategy has them.
class PlainGradients final : public model::ParameterAccess {
 public:
  // strategy must outlive this. device: the one that the model computes on.
  PlainGradients(parallel::Strategy& strategy, at::Device device);

  // The first bad one in the order of a pass, the head's before the others': in StateTensors::tensors().
  std::optional<std::int64_t> find_nonfinite() const;

  bool is_whole() const override { return strategy_.is_whole(); }
  void begin_pass(model::PassKind) override { strategy_.begin_pass(model::PassKind::inspect); }
  void idle_pass(model::PassKind) override { strategy_.idle_pass(model::PassKind::inspect); }
  void abandon_pass() override { strategy_.abandon_pass(); }
  void enter(model::UnitId unit) override { strategy_.enter(unit); }
  void leave(model::UnitId unit) override { strategy_.leave(unit); }
  tensor::GradientSum gradient(model::ParameterId parameter) override;
  void gradients_complete(model::UnitId unit) override;

 private:
  struct Unit {
    at::Tensor gradients;             // flat; undefined: none yet in this pass
    std::int64_t first = 0;           // of its tensors
    std::optional<std::int64_t> bad;  // of its tensors
  };
  struct Place {
    std::size_t unit = 0;
    parallel::FlatLayout::Entry entry;
  };

  parallel::Strategy& strategy_;
  at::Device device_;
  bool exact_;  // the sums that were bad
  std::vector<Unit> units_;
  std::map<model::ParameterId, Place> places_;
};

// From this rank's own numbers, after all passes of a step. The first in the order of a pass: parameters, the loss,
// then gradients.
BadTensor find_nonfinite(const StateTensors& state, const parallel::Strategy& strategy, bool bad_loss,
                    const PlainGradients& gradients);

struct BadOnRank {
  int rank = 0;
  BadTensor bad;
};
// The kind that comes first in a pass, of all that the ranks found, from the lowest rank that has it. Absent: nothing
// was found. All ranks call it.
std::optional<BadOnRank> agree_on_bad(const BadTensor& own, communicate::Communicator& ranks, at::Device device);

// "the gradient of model.layers.3.mlp.down_proj.weight"
std::string describe(const BadTensor& bad, const StateTensors& state);

}  // namespace muster::train
