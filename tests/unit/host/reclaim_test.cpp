#include "host/reclaim.hpp"

#include <gtest/gtest.h>

namespace muster::host {
namespace {

lease::Holder holder_that_came_at(ByteCount used) {
  lease::Holder holder;
  holder.memory_before = used;
  return holder;
}

gpu::Gpu gpu_with(ByteCount used) {
  gpu::Gpu gpu;
  gpu.reading.memory_used = used;
  return gpu;
}

TEST(Reclaim, IsDoneWhenNoMoreIsUsedThanBefore) {
  EXPECT_TRUE(memory_is_back(holder_that_came_at(gibibytes(1)), gpu_with(gibibytes(1))));
  EXPECT_TRUE(memory_is_back(holder_that_came_at(gibibytes(1)), gpu_with(gibibytes(0))));
  EXPECT_TRUE(memory_is_back(holder_that_came_at(gibibytes(1)), gpu_with(gibibytes(1) + mebibytes(512))))
      << "idle readings wander";
}

TEST(Reclaim, IsNotDoneWhileDeadMemoryIsLeft) {
  EXPECT_FALSE(memory_is_back(holder_that_came_at({}), gpu_with(gibibytes(30))));
  EXPECT_FALSE(memory_is_back(holder_that_came_at({}), gpu_with(mebibytes(513))));
}

TEST(Reclaim, DoesNotWaitForWhatLivingProcessesUse) {
  gpu::Gpu gpu = gpu_with(gibibytes(30));
  gpu.processes.push_back({.pid = 7, .memory = gibibytes(30)});
  EXPECT_TRUE(memory_is_back(holder_that_came_at({}), gpu));
  gpu.processes[0].memory = gibibytes(10);
  EXPECT_FALSE(memory_is_back(holder_that_came_at({}), gpu)) << "20 GiB belong to nobody";
}

TEST(Reclaim, WaitsForWhatADyingProcessStillUses) {
  gpu::Gpu gpu = gpu_with(gibibytes(30));
  gpu.processes.push_back({.pid = 7, .memory = gibibytes(30), .exiting = true});
  EXPECT_FALSE(memory_is_back(holder_that_came_at({}), gpu));
}

TEST(Reclaim, HasNothingToWaitForWhenNothingIsKnown) {
  EXPECT_TRUE(memory_is_back({}, gpu_with(gibibytes(30))));
  EXPECT_TRUE(memory_is_back(holder_that_came_at({}), {}));
}

}  // namespace
}  // namespace muster::host
