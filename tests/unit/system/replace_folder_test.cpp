#include "system/replace_folder.hpp"

#include <gtest/gtest.h>

#include "system/files.hpp"
#include "testing/scratch_folder.hpp"

namespace muster {
namespace {

namespace fs = std::filesystem;

class Folders : public ::testing::Test {
 protected:
  fs::path make(const char* name, const char* text) const {
    fs::create_directories(scratch_.path() / name / "within");
    scratch_.write(std::string(name) + "/within/file", text);
    return scratch_.path() / name;
  }
  std::ptrdiff_t entries() const {
    return std::distance(fs::directory_iterator(scratch_.path()), fs::directory_iterator());
  }

  testing::ScratchFolder scratch_;
};

TEST_F(Folders, TakeTheNameOfAnotherOneThatIsThenGone) {
  const fs::path place = make("model", "old");
  ASSERT_TRUE(replace_folder(make(".model.next", "new"), place));
  EXPECT_EQ(*read_file(place / "within/file"), "new");
  EXPECT_EQ(entries(), 1);
}

TEST_F(Folders, TakeANameThatNothingHas) {
  const fs::path place = scratch_.path() / "model";
  ASSERT_TRUE(replace_folder(make(".model.next", "new"), place));
  EXPECT_EQ(*read_file(place / "within/file"), "new");
  EXPECT_EQ(entries(), 1);
}

TEST_F(Folders, ThatAreMissingReplaceNothing) {
  const fs::path place = make("model", "old");
  EXPECT_FALSE(replace_folder(scratch_.path() / "missing", scratch_.path() / "other"));
  EXPECT_EQ(*read_file(place / "within/file"), "old");
}

TEST_F(Folders, AreRemovedWithWhatAKilledRemovalLeft) {
  make(".model.removed", "half");
  ASSERT_TRUE(remove_folder(make("model", "old")));
  EXPECT_EQ(entries(), 0);
  EXPECT_FALSE(remove_folder(scratch_.path() / "model"));
}

}  // namespace
}  // namespace muster
