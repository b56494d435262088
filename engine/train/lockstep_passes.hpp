// Forward passes of ranks that do not all have the same number of them.
#pragma once

#include <functional>

#include "communicate/communicator.hpp"
#include "model/parameter_access.hpp"

namespace muster::train {

// Where the model's parameters are not always there, ranks keep step: before each pass they all agree whether any has
// one, and ranks without one take part idly; where memory ran out on one, all end. Elsewhere each goes at its own pace.
class LockstepPasses {
 public:
  // Both must outlive this.
  LockstepPasses(model::ParameterAccess& home, communicate::Communicator& ranks, at::Device device)
      : home_(home),
        ranks_(ranks),
        device_(device),
        said_(at::zeros({1}, at::TensorOptions().dtype(at::kLong).device(device))) {}

  // work: all passes of this rank, each within pass(). False: memory ran out, on this rank or on one that it keeps step
  // with. Where ranks keep step, all of them call it, once.
  bool run(const std::function<void()>& work);
  // one: a pass of the model.
  void pass(const std::function<void()>& one);

 private:
  enum class Word : std::int64_t { no_pass, a_pass, out_of_memory };

  // Until no rank has a pass any more; false: memory ran out on one.
  bool walk_along();
  // What the ranks agree on: the last of these words that any of them gave.
  Word agree(Word own);

  model::ParameterAccess& home_;
  communicate::Communicator& ranks_;
  at::Device device_;
  at::Tensor said_;  // memory for a word, for when no other is left
  bool under_way_ = false;
  bool ended_ = false;  // all know that memory ran out
};

}  // namespace muster::train
