#include "system/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "system/file_descriptor.hpp"
#include "system/process.hpp"
#include "system/staged_file.hpp"
#include "testing/scratch_folder.hpp"

namespace muster {
namespace {

TEST(Files, NamesTheFileItCannotRead) {
  const auto text = read_file("/no/such/file.yaml");
  ASSERT_FALSE(text);
  EXPECT_NE(text.error().what.find("/no/such/file.yaml: No such file"), std::string::npos) << text.error().what;
  EXPECT_FALSE(read_file("/"));  // a folder
}

TEST(Files, RefusesWhatHasNoEnd) {
  const testing::ScratchFolder folder;
  const auto pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_NE(read_file(pipe).error().what.find("named pipe"), std::string::npos);
  EXPECT_NE(read_file("/dev/zero").error().what.find("device"), std::string::npos);
  EXPECT_EQ(read_file("/dev/null").value(), "");
}

// As a shell passes the output of a command: muster config -c <(command).
TEST(Files, ReadsAPipeOfThisProcess) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const FileDescriptor reader(ends[0]);
  {
    const FileDescriptor writer(ends[1]);
    ASSERT_EQ(::write(writer.number(), "a: 1\n", 5), 5);
  }
  EXPECT_EQ(read_file(fmt::format("/dev/fd/{}", reader.number())).value(), "a: 1\n");
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

// In a folder that others can write to, they can guess the name of the file that is written first.
TEST(Files, AWriteDoesNotFollowALinkThatWasPlantedBesideIt) {
  const testing::ScratchFolder folder;
  const auto precious = folder.write("precious", "private");
  const auto place = folder.path() / "plan.json";
  std::filesystem::create_symlink(precious, fmt::format("{}.part-{}", place.string(), ::getpid()));
  ASSERT_TRUE(write_file_atomically(place, "new text"));
  EXPECT_EQ(read_file(precious).value(), "private");
  EXPECT_EQ(read_file(place).value(), "new text");
  EXPECT_FALSE(std::filesystem::is_symlink(place));
}

TEST(StagedFile, DoesNotFollowALinkThatWasPlantedBesideIt) {
  const testing::ScratchFolder folder;
  const auto precious = folder.write("precious", "private");
  const auto place = folder.path() / "output.jsonl";
  std::filesystem::create_symlink(precious, fmt::format("{}.part-{}", place.string(), ::getpid()));
  auto staged = StagedFile::create(place);
  ASSERT_TRUE(staged);
  ASSERT_TRUE(staged->write("new text"));
  ASSERT_TRUE(staged->commit());
  EXPECT_EQ(read_file(precious).value(), "private");
  EXPECT_EQ(read_file(place).value(), "new text");
}

TEST(Process, KnowsItsOwnUserAndCommand) {
  const auto facts = read_process(::getpid());
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->user, user_name(::getuid()));
  EXPECT_NE(facts->command->find("system_tests"), std::string::npos) << *facts->command;
  EXPECT_FALSE(read_process(999'999'999));
}

}  // namespace
}  // namespace muster
