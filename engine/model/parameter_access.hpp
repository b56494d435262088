// Where the parameters of a model and their gradients live while it is trained. A strategy of parallelism is one of
// these; the model and the loop do not know which.
#pragma once

#include <utility>
#include <vector>

#include "model/parameter.hpp"
#include "tensor/gradient_sum.hpp"

namespace muster::model {

// What a pass goes through. Every pass visits the units in the order of visits().
enum class PassKind {
  measure,  // forward alone
  learn,    // forward and backward
  inspect,  // the same, but no gradients are complete: nothing is summed over ranks
};

class ParameterAccess {
 public:
  virtual ~ParameterAccess() = default;
  // Whether all parameters are always there: ranks need not keep step, and their memory may be read at any time.
  virtual bool is_whole() const { return true; }
  // The visits that follow are those of one pass. Where not all is always there, all ranks begin the same passes.
  virtual void begin_pass(PassKind kind) { static_cast<void>(kind); }
  // The visits of a whole pass, for a rank that has no rows in it, so that no other rank waits.
  virtual void idle_pass(PassKind kind) { static_cast<void>(kind); }
  // What is left of the visits of a pass that this rank cannot compute to its end. Its gradients mean nothing.
  virtual void abandon_pass() {}
  // The unit's parameters are read from now on, until leave().
  virtual void enter(UnitId unit) = 0;
  virtual void leave(UnitId unit) = 0;
  // Where a backward pass adds a parameter's gradient. Not wanted: a parameter that is not trained.
  virtual tensor::GradientSum gradient(ParameterId parameter) = 0;
  // This pass adds nothing more to the gradients of the unit.
  virtual void gradients_complete(UnitId unit) = 0;
};

// For a model whose parameters are all on its device; nothing is trained.
ParameterAccess& resident();

// A unit's parameters, while they are read.
class UnitGuard {
 public:
  UnitGuard(ParameterAccess& access, UnitId unit) : access_(&access), unit_(unit) { access.enter(unit); }
  ~UnitGuard() {
    if (access_ != nullptr) access_->leave(unit_);
  }
  UnitGuard(UnitGuard&& other) noexcept : access_(std::exchange(other.access_, nullptr)), unit_(other.unit_) {}
  UnitGuard& operator=(UnitGuard&&) = delete;

 private:
  ParameterAccess* access_;
  UnitId unit_;
};

// The order in which a pass enters the units of a model that has this many. tied: the head reads the embedding.
std::vector<UnitId> visits(PassKind kind, std::size_t units, bool tied);

}  // namespace muster::model
