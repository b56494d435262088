// The arithmetic of an NVIDIA GPU. Where torch was built without CUDA, one that says so stands in its place.
#pragma once

#include "tensor/device_ops.hpp"

namespace muster::tensor {

Result<DeviceOps> make_gpu_device_ops(const DeviceOptions& options);

}  // namespace muster::tensor
