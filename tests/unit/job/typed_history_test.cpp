#include "job/generate/typed_history.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "testing/scratch_folder.hpp"

namespace muster::job {
namespace {

TEST(TypedHistory, IsReadBackWithItsNewlinesByThisUserAlone) {
  const testing::ScratchFolder folder;
  const TypedHistory history(folder.path() / "state" / "conversation_history");
  EXPECT_TRUE(history.read().empty());
  history.add("one\ntwo");
  history.add("größe \"x\"");
  EXPECT_EQ(history.read(), (std::vector<std::string>{"one\ntwo", "größe \"x\""}));
  struct stat facts = {};
  ASSERT_EQ(::stat(history.file().c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
}

TEST(TypedHistory, KeepsTheNewestAndSkipsWhatIsDamaged) {
  const testing::ScratchFolder folder;
  std::string text = "{broken\n";
  for (int i = 0; i < 1500; ++i) text += "\"" + std::to_string(i) + "\"\n";
  const TypedHistory history(folder.write("history", text));
  const auto lines = history.read();
  ASSERT_EQ(lines.size(), TypedHistory::most_lines);
  EXPECT_EQ(lines.front(), "500");
  EXPECT_EQ(lines.back(), "1499");
}

TEST(TypedHistory, FollowsNoLink) {
  const testing::ScratchFolder folder;
  const auto other = folder.write("other", "precious");
  std::filesystem::create_symlink(other, folder.path() / "history");
  const TypedHistory history(folder.path() / "history");
  history.add("text");
  EXPECT_TRUE(history.read().empty());
  EXPECT_EQ(std::filesystem::file_size(other), 8u);
}

}  // namespace
}  // namespace muster::job
