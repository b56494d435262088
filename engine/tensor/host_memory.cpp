#include "tensor/host_memory.hpp"

#include <algorithm>

#ifdef MUSTER_CUDA
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#endif

namespace muster::tensor {

std::shared_ptr<float[]> host_memory(at::Device device, std::size_t count) {
#ifdef MUSTER_CUDA
  if (device.is_cuda()) {
    const c10::cuda::CUDAGuard on_device(device);
    void* memory = nullptr;
    C10_CUDA_CHECK(cudaHostAlloc(&memory, std::max<std::size_t>(count, 1) * sizeof(float), cudaHostAllocDefault));
    return {static_cast<float*>(memory), [](float* locked) { cudaFreeHost(locked); }};
  }
#endif
  static_cast<void>(device);
  return std::make_unique_for_overwrite<float[]>(count);
}

at::Tensor host_tensor(at::Device device, std::int64_t count, at::ScalarType type) {
  const std::size_t bytes = static_cast<std::size_t>(count) * c10::elementSize(type);
  const auto memory = host_memory(device, (bytes + sizeof(float) - 1) / sizeof(float));
  return at::from_blob(memory.get(), {count}, [memory](void*) {}, at::TensorOptions().dtype(type));
}

}  // namespace muster::tensor
