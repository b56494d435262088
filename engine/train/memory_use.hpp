// What this process holds of its device's memory.
#pragma once

#include "tensor/torch.hpp"
#include "wire/train_event.hpp"

namespace muster::train {

wire::MemoryUse memory_use(at::Device device, std::int64_t step);
// Returns memory that the allocator keeps for later to the driver. On a CPU nothing is kept that way.
void release_cached_memory(at::Device device);

}  // namespace muster::train
