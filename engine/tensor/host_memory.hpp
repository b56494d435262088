// Memory of the host that a device copies to while it computes.
#pragma once

#include <cstddef>
#include <memory>

#include "tensor/torch.hpp"

namespace muster::tensor {

// Room for this many numbers, not initialised; page-locked where the device is a GPU, which takes about a second
// for a few gigabytes.
std::shared_ptr<float[]> host_memory(at::Device device, std::size_t count);
// The same as a tensor, of any type.
at::Tensor host_tensor(at::Device device, std::int64_t count, at::ScalarType type);

}  // namespace muster::tensor
