#include "system/coprocess.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <vector>

#include "system/process.hpp"

namespace muster {
namespace {

using std::chrono::seconds;

Result<Coprocess> start_shell(const std::string& script) {
  return Coprocess::start({"sh", "-c", script}, "program", 1000);
}
Coprocess::Deadline after(seconds span) { return std::chrono::steady_clock::now() + span; }

std::string line_of(const Result<Coprocess::Heard>& heard) {
  if (!heard) return "error: " + heard.error().what;
  const auto* line = std::get_if<std::string>(&*heard);
  return line != nullptr ? *line : std::holds_alternative<Coprocess::Late>(*heard) ? "(late)" : "(no more)";
}

TEST(Coprocess, AnswersLineByLine) {
  auto program = start_shell("while read line; do echo \"<$line>\"; done; echo end");
  ASSERT_TRUE(program) << program.error().what;
  std::string unsent = "a\nb\n";
  EXPECT_EQ(line_of(program->converse(unsent, after(seconds(60)))), "<a>");
  EXPECT_EQ(line_of(program->converse(unsent, after(seconds(60)))), "<b>");
  EXPECT_EQ(unsent, "");
  EXPECT_EQ(line_of(program->converse(unsent, after(seconds(0)))), "(late)");
}

TEST(Coprocess, TellsHowItEnded) {
  auto program = start_shell("echo last; exit 3");
  ASSERT_TRUE(program);
  std::string unsent;
  EXPECT_EQ(line_of(program->converse(unsent, after(seconds(60)))), "last");
  EXPECT_EQ(line_of(program->converse(unsent, after(seconds(60)))), "(no more)");
  EXPECT_EQ(program->wait_for_end(seconds(60)), (ProcessEnd{3, std::nullopt, false}));
  EXPECT_EQ(program->wait_for_end(seconds(60)), (ProcessEnd{3, std::nullopt, false}));
}

TEST(Coprocess, TellsTheSignalThatEndedIt) {
  auto program = start_shell("kill -USR1 $$");
  ASSERT_TRUE(program);
  EXPECT_EQ(program->wait_for_end(seconds(60)), (ProcessEnd{std::nullopt, SIGUSR1, false}));
}

TEST(Coprocess, IsDeafOnceItsInputIsClosed) {
  auto program = start_shell("exec <&-; echo closed; sleep 1000");
  ASSERT_TRUE(program);
  std::string unsent;
  EXPECT_EQ(line_of(program->converse(unsent, after(seconds(60)))), "closed");
  EXPECT_FALSE(program->is_deaf());
  unsent = "words\n";
  EXPECT_EQ(line_of(program->converse(unsent, after(seconds(1000)))), "(late)");
  EXPECT_TRUE(program->is_deaf());
  EXPECT_EQ(unsent, "words\n");
}

TEST(Coprocess, IsNotListenedToForEverInOneLine) {
  auto program = start_shell("yes | tr -d '\\n'");
  ASSERT_TRUE(program);
  std::string unsent;
  EXPECT_NE(line_of(program->converse(unsent, after(seconds(60)))).find("longer than 1000 bytes"), std::string::npos);
}

TEST(Coprocess, LeavesNothingBehindThatIgnoresTheEnd) {
  std::vector<pid_t> processes;
  {
    auto program = start_shell("trap '' TERM; (trap '' TERM; exec sleep 1000) & echo $!; echo $$; while :; do sleep 1000; done");
    ASSERT_TRUE(program);
    std::string unsent;
    for (int i = 0; i < 2; ++i) processes.push_back(std::stoi(line_of(program->converse(unsent, after(seconds(60))))));
  }
  const auto is_there = [](pid_t pid) {
    const auto status = read_process_status(pid);
    return status && !status->ended;
  };
  for (const pid_t pid : processes) {
    for (int i = 0; i < 3000 && is_there(pid); ++i) ::usleep(10'000);
    EXPECT_FALSE(is_there(pid));
  }
}

}  // namespace
}  // namespace muster
