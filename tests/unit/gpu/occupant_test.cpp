#include "gpu/occupant.hpp"

#include <gtest/gtest.h>

namespace muster::gpu {
namespace {

GpuProcess process(pid_t pid, std::optional<ByteCount> memory) {
  GpuProcess made;
  made.pid = pid;
  made.memory = memory;
  return made;
}

std::vector<pid_t> busy_with(std::vector<GpuProcess> processes, std::vector<pid_t> own = {}) {
  Gpu gpu;
  gpu.processes = std::move(processes);
  std::vector<pid_t> pids;
  for (const GpuProcess* occupant : occupants(gpu, own)) pids.push_back(occupant->pid);
  return pids;
}

using Pids = std::vector<pid_t>;

TEST(Occupants, AreProcessesThatCompute) {
  EXPECT_EQ(busy_with({process(7, gibibytes(3))}), Pids{7});
  EXPECT_EQ(busy_with({process(7, std::nullopt)}), Pids{7}) << "what is not known is not taken for little";
  EXPECT_EQ(busy_with({}), Pids{});
}

TEST(Occupants, AreNotThoseThatOnlyDrawOrAreExitingOrHardlyUseAnything) {
  GpuProcess draws = process(8, gibibytes(1));
  draws.graphics = true;
  GpuProcess exits = process(9, gibibytes(30));
  exits.exiting = true;
  EXPECT_EQ(busy_with({draws, exits, process(10, mebibytes(63)), process(11, mebibytes(64))}), Pids{11});
}

TEST(Occupants, AreNotTheProcessThatAsksAndThoseThatStartedIt) {
  EXPECT_EQ(busy_with({process(7, gibibytes(3)), process(8, gibibytes(3))}, {8, 1}), Pids{7});
}

TEST(Occupants, AreDescribedByTheLargest) {
  GpuProcess large = process(41877, gibibytes(31));
  large.user = "alice";
  large.command = "python train.py";
  const GpuProcess small = process(5, gibibytes(1));
  const std::vector<const GpuProcess*> both{&small, &large}, one{&small};
  EXPECT_EQ(describe(both), "alice (pid 41877, python train.py, 31.0 GiB) and 1 more");
  EXPECT_EQ(describe(one), "an unknown user (pid 5, 1.0 GiB)");
}

}  // namespace
}  // namespace muster::gpu
