// What a rank does whose memory ran out in a pass.
#pragma once

#include "model/residence.hpp"

namespace muster::train {

// Takes part in what is left of the pass, so that no other rank waits. Memory may be short for that, too, until other
// ranks have let go of theirs.
void abandon_pass(model::Residence& residence, at::Device device);

}  // namespace muster::train
