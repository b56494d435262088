// Carries out steps: on one device, or over the ranks that a model is split over.
#pragma once

#include <vector>

#include "generate/step.hpp"
#include "tensor/token_choice.hpp"

namespace muster::generate {

class StepRunner {
 public:
  virtual ~StepRunner() = default;

  // How many steps may be under way at once, to keep everything busy. Steps that are under way together have no
  // sequence in common: the sequences are that many groups.
  virtual int depth() const = 0;
  virtual void begin(const Step& step) = 0;
  // What the draws of the oldest step under way gave. Waits for it.
  virtual std::vector<tensor::ChosenToken> finish() = 0;
};

}  // namespace muster::generate
