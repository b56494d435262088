#include "worker/work_progress.hpp"

#include <c10/core/CachingDeviceAllocator.h>

namespace muster::worker {
namespace {

constexpr std::chrono::milliseconds between_progress(200);

}  // namespace

void WorkProgress::tell_now_and_then() {
  if (std::chrono::steady_clock::now() - told_ >= between_progress) tell();
}

void WorkProgress::tell() {
  told_ = std::chrono::steady_clock::now();
  job_.channel.tell(wire::Progress{"tokens", tokens_, std::nullopt});
  if (job_.device.is_cpu()) return;
  const auto memory = c10::getDeviceAllocator(job_.device.type())->getDeviceStats(job_.device.index());
  job_.channel.tell(wire::Progress{"memory", memory.allocated_bytes.front().peak, std::nullopt});
}

}  // namespace muster::worker
