#include "tensor/gpu_device_ops.hpp"

namespace muster::tensor {

Result<DeviceOps> make_gpu_device_ops(const DeviceOptions&) {
  return Error{Error::Kind::refused, "this muster-worker was built with a torch that has no CUDA",
               "install a CUDA build of torch and build again, or compute on the CPU: --device cpu"};
}

}  // namespace muster::tensor
