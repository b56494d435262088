#include "system/process.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "system/process_handle.hpp"

namespace muster {
namespace {

const std::string numbers = " S 10 20 30 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 987654 1000 200 18446744073709551615\n";

TEST(ProcessStatus, IsReadFromTheKernelsLine) {
  const auto status = parse_process_status("4711 (python)" + numbers);
  ASSERT_TRUE(status);
  EXPECT_EQ(status->identity, (ProcessIdentity{4711, 987654}));
  EXPECT_EQ(status->parent, 10);
  EXPECT_EQ(status->group, 20);
  EXPECT_EQ(status->session, 30);
  EXPECT_FALSE(status->ended);
}

TEST(ProcessStatus, TellsAProcessThatIsOnItsWayOut) {
  EXPECT_FALSE(parse_process_status("4711 (python)" + numbers)->exiting);
  std::string dying = numbers;
  dying.replace(dying.find("4194304"), 7, "4194308");
  EXPECT_TRUE(parse_process_status("4711 (python)" + dying)->exiting);
  EXPECT_FALSE(parse_process_status("4711 (python)" + dying)->ended);
}

TEST(ProcessStatus, IsNotConfusedByTheNameOfTheProgram) {
  const auto status = parse_process_status("4711 (a) Z 1 (b) S 2)" + numbers);
  ASSERT_TRUE(status);
  EXPECT_EQ(status->parent, 10);
  EXPECT_FALSE(status->ended);
}

TEST(ProcessStatus, IsNothingWhenTheLineIsNone) {
  for (const char* line : {"", "4711", "4711 (python)", "4711 (python) S 10", "x (python) S 1 2 3", ") "})
    EXPECT_FALSE(parse_process_status(line)) << line;
}

TEST(ProcessStatus, SeesParentAndDeath) {
  const pid_t child = ::fork();
  if (child == 0) {
    while (true) ::pause();
  }
  const FileDescriptor handle = open_process(child);
  const auto alive = read_process_status(child);
  EXPECT_TRUE(signal_process(handle, SIGKILL));
  EXPECT_TRUE(wait_for_end(handle, std::chrono::steady_clock::now() + std::chrono::seconds(30)));
  const auto dead = read_process_status(child);
  ::waitpid(child, nullptr, 0);
  ASSERT_TRUE(alive && dead);
  EXPECT_EQ(alive->parent, ::getpid());
  EXPECT_FALSE(alive->ended);
  EXPECT_TRUE(dead->ended);
  EXPECT_EQ(alive->identity, dead->identity);
  EXPECT_FALSE(signal_process(handle, SIGKILL)) << "gone";
  EXPECT_FALSE(read_process_status(child));
}

TEST(ProcessHandle, IsNotReadableWhileTheProcessLives) {
  EXPECT_FALSE(wait_for_end(open_process(::getpid()), std::chrono::steady_clock::now()));
}

TEST(ProcessIdentity, IsWrittenAndReadBack) {
  const ProcessIdentity identity{4711, 18446744073709551615U};
  EXPECT_EQ(parse_identity(to_string(identity)), identity);
  for (const char* text : {"", "-", "4711", "4711-", "-4711-1", "0-1", "4711-1x", "4711--1"})
    EXPECT_FALSE(parse_identity(text)) << text;
}

}  // namespace
}  // namespace muster
