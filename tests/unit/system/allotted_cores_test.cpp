#include "system/allotted_cores.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "testing/scratch_folder.hpp"

namespace muster {
namespace {

// A machine whose control groups are files.
class AllottedCores : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    const auto path = folder_.path() / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  int cores() { return allotted_cores(folder_.path()); }
  const int all_ = static_cast<int>(allowed_cpus().size());

  testing::ScratchFolder folder_;
};

TEST_F(AllottedCores, AreTheCpusItMayRunOnWithoutAQuota) {
  EXPECT_GE(all_, 1);
  EXPECT_EQ(cores(), all_);
}

TEST_F(AllottedCores, AreNoMoreThanTheQuotaOfTheGroup) {
  write("proc/self/cgroup", "0::/job\n");
  write("sys/fs/cgroup/job/cpu.max", "100000 100000\n");
  EXPECT_EQ(cores(), 1);
  write("sys/fs/cgroup/job/cpu.max", "max 100000\n");
  EXPECT_EQ(cores(), all_);
}

TEST_F(AllottedCores, AreNoMoreThanTheQuotaOfAGroupAbove) {
  write("proc/self/cgroup", "0::/pod/job\n");
  write("sys/fs/cgroup/pod/job/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/pod/cpu.max", "50000 100000\n");
  EXPECT_EQ(cores(), 1) << "half a core counts as one";
}

TEST_F(AllottedCores, HeedTheOldKindOfControlGroups) {
  write("proc/self/cgroup", "4:cpu,cpuacct:/job\n1:name=systemd:/\n");
  write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "100000\n");
  write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cores(), 1);
  write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(cores(), all_);
}

}  // namespace
}  // namespace muster
