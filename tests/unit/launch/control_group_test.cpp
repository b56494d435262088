#include "launch/keeper/control_group.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>

#include "system/files.hpp"
#include "observed_keeper.hpp"

namespace muster::launch {
namespace {

namespace fs = std::filesystem;

const std::string unified =
    "25 1 0:23 / /proc rw - proc proc rw\n"
    "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

TEST(ControlGroupFolder, IsBelowTheMountPoint) {
  EXPECT_EQ(control_group_folder(unified, "0::/user.slice/session-3.scope\n"),
            "/sys/fs/cgroup/user.slice/session-3.scope");
}

TEST(ControlGroupFolder, IsFoundBesideGroupsOfVersion1) {
  const std::string hybrid =
      "30 24 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
      "31 24 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
  EXPECT_EQ(control_group_folder(hybrid, "4:memory:/a\n1:name=systemd:/b\n0::/c\n"), "/sys/fs/cgroup/unified/c");
}

TEST(ControlGroupFolder, CountsFromThePartThatIsMounted) {
  const std::string part = "35 24 0:30 /docker/4711 /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
  EXPECT_EQ(control_group_folder(part, "0::/docker/4711/inner\n"), "/sys/fs/cgroup/inner");
  EXPECT_EQ(control_group_folder(part, "0::/docker/4712\n"), std::nullopt);
}

TEST(ControlGroupFolder, MayHaveBlanksInItsMountPoint) {
  const std::string blank = "35 24 0:30 / /my\\040groups rw - cgroup2 cgroup2 rw\n";
  EXPECT_EQ(control_group_folder(blank, "0::/a\n"), "/my groups/a");
}

TEST(ControlGroupFolder, IsAbsentWithoutVersion2) {
  EXPECT_EQ(control_group_folder("30 24 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw\n", "4:memory:/a\n"),
            std::nullopt);
  EXPECT_EQ(control_group_folder(unified, "4:memory:/a\n"), std::nullopt);
  EXPECT_EQ(control_group_folder("", ""), std::nullopt);
  EXPECT_EQ(control_group_folder("35 24 - cgroup2 \n", "0::/\n"), std::nullopt);
}

ProcessIdentity this_process() { return read_process_status(::getpid())->identity; }

std::optional<fs::path> folder_here() {
  return control_group_folder(*read_file("/proc/self/mountinfo"), *read_file("/proc/self/cgroup"));
}
fs::path folder_of(const ProcessIdentity& owner) { return *folder_here() / ("muster-" + to_string(owner)); }

// Where the machine does not let us make groups there is none, and that is all there is to see.
bool may_be_allowed() { return folder_here() && ::access(folder_here()->c_str(), W_OK) == 0; }

class ControlGroupTest : public ::testing::Test {
 protected:
  std::optional<ControlGroup> group_ = ControlGroup::create(this_process());
  ~ControlGroupTest() override {
    if (group_) group_->remove();
  }
};

TEST_F(ControlGroupTest, AreMadeWhereTheyAreAllowed) {
  EXPECT_TRUE(may_be_allowed() || !group_);
  if (!group_) return;
  EXPECT_TRUE(fs::is_directory(folder_of(this_process())));
  group_->remove();
  EXPECT_FALSE(fs::exists(folder_of(this_process())));
}

TEST_F(ControlGroupTest, HoldWhatIsBornInsideAndKillItAtOnce) {
  if (!group_) return;
  const pid_t child = group_->fork_inside();
  if (child == 0) sleep_until_killed();
  ASSERT_GT(child, 0);
  EXPECT_EQ(group_->members(), std::vector<pid_t>{child});
  group_->remove();
  EXPECT_TRUE(fs::exists(folder_of(this_process()))) << "removed with a process inside";
  EXPECT_FALSE(group_->is_spent());
  if (!group_->kill()) ::kill(child, SIGKILL);  // an older kernel
  EXPECT_TRUE(group_->is_spent());
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_TRUE(group_->members().empty());
}

TEST_F(ControlGroupTest, AreRemovedWithTheGroupsInside) {
  if (!group_) return;
  const fs::path inner = folder_of(this_process()) / "inner" / "innermost";
  ASSERT_EQ(::mkdir(inner.parent_path().c_str(), 0755), 0);
  ASSERT_EQ(::mkdir(inner.c_str(), 0755), 0);
  group_->remove();
  EXPECT_FALSE(fs::exists(folder_of(this_process())));
}

TEST_F(ControlGroupTest, AreRemovedByOthersOnceTheirOwnerIsGone) {
  if (!group_) return;
  const ProcessIdentity gone{::getpid(), this_process().start - 1};
  ASSERT_EQ(::mkdir(folder_of(gone).c_str(), 0755), 0);
  ForkedProcess other([] {
    const auto made = ControlGroup::create(this_process());
    const bool kept = fs::exists(folder_of({::getppid(), read_process_status(::getppid())->identity.start}));
    if (made) made->remove();
    ::_exit(made && kept ? 0 : 1);
  });
  EXPECT_EQ(other.wait(), 0) << "no group, or that of a living owner is gone";
  EXPECT_FALSE(fs::exists(folder_of(gone)));
}

TEST_F(ControlGroupTest, AreFoundAgainByTheNameOfTheirOwner) {
  if (!group_) return;
  EXPECT_TRUE(ControlGroup::open(this_process()));
  EXPECT_FALSE(ControlGroup::open({::getpid(), this_process().start - 1}));
}

}  // namespace
}  // namespace muster::launch
