// Passes that a rank does not compute, or not to their end.
#pragma once

#include "model/parameter_access.hpp"

namespace muster::train {

// Takes part in what is left of the pass, so that no other rank waits. Memory may be short for that, too, until other
// ranks have let go of theirs.
void abandon_pass(model::ParameterAccess& access, at::Device device);
// Takes part in a whole pass without computing, in the same way.
void stand_by(model::ParameterAccess& access, model::PassKind kind, at::Device device);

}  // namespace muster::train
