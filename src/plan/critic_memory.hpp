// What a second model takes that is trained beside the first one, pass after pass: its states stay, its passes take
// turns.
#pragma once

#include "plan/memory_model.hpp"

namespace muster::plan {

// As a critic is trained beside this work: all of its weights, without a reference and without the first one's
// adapters.
Workload workload_of_critic(const Workload& workload);

// Both on one device. critic: as device_memory() has it by itself.
DeviceMemory with_critic(DeviceMemory memory, const DeviceMemory& critic, const MemoryConstants& constants);

}  // namespace muster::plan
