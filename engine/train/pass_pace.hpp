// Forward passes of ranks that have unequally many of them.
#pragma once

#include <functional>

#include "communicate/communicator.hpp"
#include "model/residence.hpp"

namespace muster::train {

// Where the model's parameters are not always there, ranks keep step: before each pass all of them agree whether any
// has one, and who has none walks along. Elsewhere each goes at its own pace.
class PassPace {
 public:
  // Both must outlive this.
  PassPace(model::Residence& home, communicate::Communicator& ranks, at::Device device)
      : home_(home), ranks_(ranks), device_(device) {}

  // run: one pass of the model.
  void pass(const std::function<void()>& run);
  // Where memory ran out: what is left of the pass that was under way, if one was.
  void abandon();
  // Until no rank has a pass any more.
  void walk_along();
  // Whether it is so on any rank. All ranks call it.
  bool any(bool own);

 private:
  model::Residence& home_;
  communicate::Communicator& ranks_;
  at::Device device_;
  bool under_way_ = false;
};

}  // namespace muster::train
