#include "system/private_folder.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "testing/scratch_folder.hpp"

namespace muster {
namespace {

namespace fs = std::filesystem;

TEST(PrivateFolder, IsItsUsersAloneWhateverTheUmask) {
  const testing::ScratchFolder scratch;
  const fs::path folder = scratch.path() / "above" / "private";
  const mode_t before = ::umask(0);
  EXPECT_FALSE(make_private_folder(folder));
  ::umask(before);
  EXPECT_EQ(fs::status(folder).permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(folder.parent_path()).permissions(), fs::perms::all) << "only the last one is closed";
}

TEST(PrivateFolder, LeavesTheModeOfOneThatIsThere) {
  const testing::ScratchFolder scratch;
  const fs::path folder = scratch.path() / "shared";
  fs::create_directory(folder);
  fs::permissions(folder, fs::perms::owner_all | fs::perms::group_all);
  EXPECT_FALSE(make_private_folder(folder));
  EXPECT_EQ(fs::status(folder).permissions(), fs::perms::owner_all | fs::perms::group_all);
}

TEST(PrivateFolder, SaysWhyItCannotBeMade) {
  const testing::ScratchFolder scratch;
  std::ofstream(scratch.path() / "file") << "a file\n";
  EXPECT_EQ(make_private_folder(scratch.path() / "file"), std::errc::file_exists);
  EXPECT_TRUE(make_private_folder(scratch.path() / "file" / "below"));
}

}  // namespace
}  // namespace muster
