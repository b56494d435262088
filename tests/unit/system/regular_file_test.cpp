#include "system/regular_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "testing/contains.hpp"
#include "testing/scratch_folder.hpp"

namespace muster {
namespace {

using testing::contains;

TEST(RegularFile, GivesItsBeginningOrAllOfIt) {
  const testing::ScratchFolder folder;
  const auto file = RegularFile::open(folder.write("f", "abcdef"));
  ASSERT_TRUE(file);
  EXPECT_EQ(file->size(), 6u);
  EXPECT_EQ(file->beginning(0).value(), "");
  EXPECT_EQ(file->beginning(4).value(), "abcd");
  EXPECT_EQ(file->beginning(~0ull).value(), "abcdef");
}

TEST(RegularFile, IsNoFolderNoPipeAndNothingMissing) {
  const testing::ScratchFolder folder;
  EXPECT_TRUE(contains(RegularFile::open(folder.path()).error().what, "not a regular file"));
  EXPECT_TRUE(contains(RegularFile::open(folder.path() / "none").error().what, "none", "No such file"));
  const auto pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(contains(RegularFile::open(pipe).error().what, "not a regular file"));  // and does not wait for a writer
}

}  // namespace
}  // namespace muster
