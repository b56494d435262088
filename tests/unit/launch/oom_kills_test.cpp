#include "launch/keeper/oom_kills.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "testing/scratch_folder.hpp"

namespace muster::launch {
namespace {

TEST(MemoryKills, AddUpTheMachinesAndTheGroups) {
  const muster::testing::ScratchFolder folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder.path() / name).parent_path());
    std::ofstream(folder.path() / name) << text;
  };
  EXPECT_EQ(oom_kills(folder.path()), 0u);
  write("proc/vmstat", "pgfault 12\noom_kill 3\n");
  EXPECT_EQ(oom_kills(folder.path()), 3u);
  write("proc/self/cgroup", "4:memory:/job\n0::/job\n");
  write("sys/fs/cgroup/job/memory.events", "oom 1\noom_kill 5\n");
  write("sys/fs/cgroup/memory/job/memory.oom_control", "under_oom 0\noom_kill 7\n");
  EXPECT_EQ(oom_kills(folder.path()), 15u);
}

}  // namespace
}  // namespace muster::launch
