#include "system/disk_space.hpp"

#include <gtest/gtest.h>

#include <cerrno>

#include "testing/contains.hpp"
#include "testing/scratch_folder.hpp"

namespace muster {
namespace {

using namespace std::chrono_literals;
using testing::contains;

constexpr ByteCount more_than_any_disk{std::int64_t{1} << 60};

TEST(DiskSpace, IsThatOfTheNearestParentThatExists) {
  const testing::ScratchFolder scratch;
  const auto here = free_space(scratch.path()), below = free_space(scratch.path() / "not" / "yet" / "made");
  ASSERT_TRUE(here && below);
  EXPECT_GT(here->value, 0);
  EXPECT_NEAR(static_cast<double>(below->value), static_cast<double>(here->value), 1 << 30);  // others write, too
}

TEST(DiskSpace, IsUnknownWhereTheFileSystemDoesNotSay) { EXPECT_FALSE(free_space("/proc/self")); }

TEST(DiskSpace, IsFullByTwoErrorNumbers) {
  EXPECT_TRUE(is_disk_full(ENOSPC) && is_disk_full(EDQUOT));
  EXPECT_FALSE(is_disk_full(EACCES) || is_disk_full(EFBIG) || is_disk_full(0));
}

TEST(DiskWait, ReturnsAtOnceWhereThereIsRoom) {
  const testing::ScratchFolder scratch;
  int notes = 0;
  DiskWait wait(1h, [&](const std::string&) { ++notes; });
  EXPECT_TRUE(wait.until_free(scratch.path(), {1}, "a file"));
  EXPECT_EQ(notes, 0);
}

TEST(DiskWait, RefusesWithBothNumbersWhenItsPatienceIsUsedUp) {
  const testing::ScratchFolder scratch;
  std::vector<std::string> notes;
  DiskWait wait(1ms, [&](const std::string& text) { notes.push_back(text); });
  const auto waited = wait.until_free(scratch.path(), more_than_any_disk, "the checkpoint of step 4");
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().kind, Error::Kind::refused);
  EXPECT_TRUE(contains(waited.error().what, "the checkpoint of step 4 needs", "has", "free"));
  EXPECT_TRUE(contains(waited.error().remedy, "free "));
  ASSERT_EQ(notes.size(), 1u);  // however often it looked
  EXPECT_TRUE(contains(notes[0], "the disk is full", "waiting up to 1 s"));
  EXPECT_FALSE(wait.pause("anything"));
}

TEST(DiskWait, SaysNothingWhereItDoesNotWait) {
  int notes = 0;
  DiskWait wait(0ms, [&](const std::string&) { ++notes; });
  EXPECT_FALSE(wait.pause("a file"));
  EXPECT_EQ(notes, 0);
}

TEST(DiskWait, EndsWhenItIsAskedToStop) {
  const testing::ScratchFolder scratch;
  std::stop_source stop;
  DiskWait wait(1h, [&](const std::string&) { stop.request_stop(); });
  EXPECT_FALSE(wait.until_free(scratch.path(), more_than_any_disk, "a file", stop.get_token()));
}

}  // namespace
}  // namespace muster
