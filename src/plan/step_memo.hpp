// The moments of steps that were requested before. Looking for the strategy, batch and remedies that fit asks about the
// same step under many layouts.
#pragma once

#include <utility>
#include <vector>

#include "plan/step_moments.hpp"

namespace muster::plan {

class StepMemo {
 public:
  // As training_moments returns them. The reference is valid until the next call.
  const std::vector<Moment>& training(Implementation implementation, const StepRequest& request);

 private:
  struct Entry {
    Implementation implementation;
    StepRequest request;
    std::vector<Moment> moments;
  };
  std::vector<Entry> entries_;
};

}  // namespace muster::plan
