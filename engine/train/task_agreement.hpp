// Hosts plan by themselves; what ranks must not differ in is settled before they begin.
#pragma once

#include "base/result.hpp"
#include "communicate/communicator.hpp"
#include "wire/train_task.hpp"

namespace muster::train {

// Passes are of rank 0's size on all ranks, and where something else differs that must not, it is named and refused.
// All ranks call it.
Result<void> agree_on_task(wire::TrainTask& task, std::uint64_t seed, communicate::Communicator& ranks,
                         at::Device device);

}  // namespace muster::train
