#include "queue/job_keeper.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "system/files.hpp"
#include "launch/keeper/detached_process.hpp"
#include "queue/attempt_file.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::queue {
namespace {

struct Kept : ::testing::Test {
  // Runs a line of the shell under a keeper, to its end; what was written down of it.
  AttemptRecord run(const std::string& line, const std::filesystem::path& file, unsigned int umask = 022,
                    std::optional<pid_t> ends_with = std::nullopt) {
    KeeperOrder order{.command = {"/bin/sh", "-c", line},
                      .environment = {"PATH=/usr/bin:/bin"},
                      .folder = scratch.path().string(),
                      .umask = umask,
                      .log = log,
                      .attempt = FileDescriptor(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)),
                      .grant = {},
                      .grace = std::chrono::milliseconds(100),
                      .oom_kills = 0,
                      .ends_with = ends_with};
    const auto pid = start_keeper(std::move(order));
    EXPECT_TRUE(pid);
    ::waitpid(*pid, nullptr, 0);
    if (file == "/dev/full") return {};
    return parse_attempt(read_file(file).value());
  }

  const testing::ScratchFolder scratch;
  std::filesystem::path log = scratch.path() / "log";
  const std::filesystem::path attempt = scratch.path() / "attempt-1.jsonl";
  const std::filesystem::path proof = scratch.path() / "proof";
};

TEST_F(Kept, ACommandRunsWithTheMaskOfItsSubmission) {
  const AttemptRecord record = run("touch proof; exit 3", attempt, 077);
  EXPECT_EQ(record.end, AttemptEnd(CommandEnd{schedule::HowEnded::exited, 3}));
  struct stat facts = {};
  ASSERT_EQ(::stat(proof.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
}

TEST_F(Kept, NothingBeginsThatCannotBeWrittenDown) {
  run("touch proof", "/dev/full");
  EXPECT_FALSE(std::filesystem::exists(proof)) << "who looks later would take it for one that never began";
}

TEST_F(Kept, NothingBeginsWithoutALog) {
  log = scratch.path() / "no/such/folder/log";
  const AttemptRecord record = run("touch proof", attempt);
  ASSERT_TRUE(record.end && std::holds_alternative<NotStarted>(*record.end));
  EXPECT_NE(std::get<NotStarted>(*record.end).reason.find("no/such/folder/log"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(proof));
}

TEST_F(Kept, WhatAnEarlierAttemptSaidIsNotHeldAgainstThisOne) {
  const std::string out_of_memory = "echo 'RuntimeError: CUDA out of memory'; exit 1";
  EXPECT_EQ(run(out_of_memory, attempt).end, AttemptEnd(CommandEnd{schedule::HowEnded::out_of_memory, 1}));
  EXPECT_EQ(run("exit 1", scratch.path() / "attempt-2.jsonl").end,
            AttemptEnd(CommandEnd{schedule::HowEnded::exited, 1}));
}

// Who ends a job leaves what has this name alone: launch/keeper/detached_process.hpp.
TEST_F(Kept, OnlyAKeeperThatOutlivesItsParentStandsApart) {
  const std::string tell_name = "cat /proc/$PPID/comm > proof";
  run(tell_name, attempt);
  EXPECT_EQ(read_file(proof).value(), std::string(launch::detached_job) + "\n");
  run(tell_name, scratch.path() / "attempt-2.jsonl", 022, ::getpid());
  EXPECT_NE(read_file(proof).value(), std::string(launch::detached_job) + "\n");
}

}  // namespace
}  // namespace muster::queue
