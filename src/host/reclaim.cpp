#include "host/reclaim.hpp"

namespace muster::host {
namespace {

// Drivers keep a few hundred MiB after the last context is gone, and idle readings fluctuate.
constexpr ByteCount tolerance = mebibytes(512);

}  // namespace

bool memory_is_back(const lease::Holder& last_holder, const gpu::Gpu& now) {
  if (!last_holder.memory_before || !now.reading.memory_used) return true;  // nothing to compare: nothing to wait for
  const ByteCount extra = *now.reading.memory_used - *last_holder.memory_before;
  ByteCount accounted_for{};
  for (const gpu::GpuProcess& process : now.processes)
    if (!process.exiting) accounted_for = accounted_for + process.memory.value_or(ByteCount{});
  return extra <= tolerance || extra - accounted_for <= tolerance;
}

}  // namespace muster::host
