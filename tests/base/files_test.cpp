#include "base/files.hpp"

#include <gtest/gtest.h>

#include "base/process.hpp"
#include "testing/scratch_folder.hpp"

namespace muster {
namespace {

TEST(Files, NamesTheFileItCannotRead) {
  const auto text = read_file("/no/such/file.yaml");
  ASSERT_FALSE(text);
  EXPECT_NE(text.error().what.find("/no/such/file.yaml: No such file"), std::string::npos) << text.error().what;
  EXPECT_FALSE(read_file("/"));  // a folder
}

TEST(Files, WritesAllOrNothing) {
  const testing::ScratchFolder folder;
  const auto file = folder.write("plan.json", "old");
  ASSERT_TRUE(write_file_atomically(file, "new text"));
  EXPECT_EQ(read_file(file).value(), "new text");
  EXPECT_FALSE(write_file_atomically(folder.path() / "absent" / "f", "x"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1)
      << "nothing is left beside the file";
}

TEST(Process, KnowsItsOwnUserAndCommand) {
  const auto facts = read_process(::getpid());
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->user, user_name(::getuid()));
  EXPECT_NE(facts->command->find("base_tests"), std::string::npos) << *facts->command;
  EXPECT_FALSE(read_process(999'999'999));
}

}  // namespace
}  // namespace muster
