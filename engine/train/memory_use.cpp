#include "train/memory_use.hpp"

#include <c10/core/CachingDeviceAllocator.h>

#include <fstream>
#include <string>

#ifdef MUSTER_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>
#endif

namespace muster::train {
namespace {

// From /proc/self/status, which has kibibytes.
std::int64_t process_memory(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kibibytes = 0;
    if (word == key && status >> kibibytes) return kibibytes * 1024;
  }
  return 0;
}

std::optional<std::int64_t> memory_of_gpu(at::Device device) {
#ifdef MUSTER_CUDA
  std::size_t free = 0, total = 0;
  c10::cuda::set_device(device.index());
  if (cudaMemGetInfo(&free, &total) == cudaSuccess) return static_cast<std::int64_t>(total);
#else
  static_cast<void>(device);
#endif
  return std::nullopt;
}

}  // namespace

wire::MemoryUse memory_use(at::Device device, std::int64_t step) {
  wire::MemoryUse use;
  use.step = step;
  if (device.is_cpu()) {
    use.used = use.reserved = process_memory("VmRSS:");
    use.peak = process_memory("VmHWM:");
    return use;
  }
  const auto stats = c10::getDeviceAllocator(device.type())->getDeviceStats(device.index());
  use.used = stats.allocated_bytes.front().current;
  use.reserved = stats.reserved_bytes.front().current;
  use.peak = stats.allocated_bytes.front().peak;
  use.total = memory_of_gpu(device);
  return use;
}

void release_cached_memory(at::Device device) {
  if (!device.is_cpu()) c10::getDeviceAllocator(device.type())->emptyCache();
}

}  // namespace muster::train
