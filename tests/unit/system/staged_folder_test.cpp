#include "system/staged_folder.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "system/files.hpp"
#include "system/subprocess.hpp"
#include "testing/contains.hpp"
#include "testing/scratch_folder.hpp"

namespace muster {
namespace {

namespace fs = std::filesystem;
using testing::contains;

std::size_t entries(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(StagedFolder, AppearsOnlyWhenItIsCommitted) {
  const testing::ScratchFolder scratch;
  const fs::path place = scratch.path() / "above" / "model";
  auto staged = StagedFolder::create(place);
  ASSERT_TRUE(staged) << staged.error().what;
  ASSERT_TRUE(staged->write("config.json", "{}"));
  EXPECT_FALSE(fs::exists(place));
  ASSERT_TRUE(staged->commit());
  EXPECT_EQ(read_file(place / "config.json").value(), "{}");
  EXPECT_EQ(entries(place.parent_path()), 1u);
}

TEST(StagedFolder, IsAsOpenAsItsUserWantsFoldersToBe) {
  const testing::ScratchFolder scratch;
  const mode_t before = ::umask(077);
  auto closed = StagedFolder::create(scratch.path() / "closed");
  ::umask(022);
  auto open = StagedFolder::create(scratch.path() / "open");
  ::umask(before);
  ASSERT_TRUE(closed && open && closed->commit() && open->commit());
  EXPECT_EQ(fs::status(scratch.path() / "closed").permissions(), fs::perms(0700));
  EXPECT_EQ(fs::status(scratch.path() / "open").permissions(), fs::perms(0755));
}

TEST(StagedFolder, LeavesNothingBehindWhenItIsDropped) {
  const testing::ScratchFolder scratch;
  {
    auto staged = StagedFolder::create(scratch.path() / "model");
    ASSERT_TRUE(staged && staged->write("file", "text"));
    StagedFolder moved = std::move(*staged);
  }
  EXPECT_EQ(entries(scratch.path()), 0u);
}

TEST(StagedFolder, RefusesAPlaceThatIsTakenBeforeOrMeanwhile) {
  const testing::ScratchFolder scratch;
  fs::create_directory(scratch.path() / "taken");
  const auto early = StagedFolder::create(scratch.path() / "taken");
  ASSERT_FALSE(early);
  EXPECT_TRUE(contains(to_string(early.error()), "taken is already there", "name another folder"));
  auto late = StagedFolder::create(scratch.path() / "late");
  ASSERT_TRUE(late);
  fs::create_directory(scratch.path() / "late");
  const auto committed = late->commit();
  ASSERT_FALSE(committed);
  EXPECT_TRUE(contains(committed.error().what, "late is already there"));
}

TEST(StagedFolder, RemovesWhatAKilledProcessLeftBehindAndNothingThatIsInUse) {
  const testing::ScratchFolder scratch;
  const fs::path place = scratch.path() / "model";
  const auto killed = run_in_child(
      [&] {
        const auto staged = StagedFolder::create(place);
        if (!staged || !staged->write("file", "text")) return 1;
        ::_exit(0);  // without its destructor, as by a signal
      },
      std::chrono::seconds(20));
  ASSERT_TRUE(killed && killed->exit_code == 0);
  EXPECT_EQ(entries(scratch.path()), 1u);
  const auto first = StagedFolder::create(place);
  ASSERT_TRUE(first);
  EXPECT_EQ(entries(scratch.path()), 1u);  // the abandoned one is gone
  const auto second = StagedFolder::create(place);
  ASSERT_TRUE(second);
  EXPECT_EQ(entries(scratch.path()), 2u);  // the one in use is not
}

}  // namespace
}  // namespace muster
