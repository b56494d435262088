#include "queue/attempt_file.hpp"

#include <gtest/gtest.h>

#include <cerrno>

#include "testing/scratch_folder.hpp"

namespace muster::queue {
namespace {

using schedule::HowEnded;

const ProcessIdentity keeper{4711, 123};

TEST(AttemptFile, TellsHowFarAnAttemptCame) {
  EXPECT_EQ(parse_attempt(""), AttemptRecord{});
  EXPECT_EQ(parse_attempt(begun_line(keeper)), (AttemptRecord{keeper, {}}));
  for (const AttemptEnd& end :
       {AttemptEnd(CommandEnd{HowEnded::exited, 3}), AttemptEnd(CommandEnd{HowEnded::killed, 9}),
        AttemptEnd(CommandEnd{HowEnded::out_of_memory, 137}), AttemptEnd(NotStarted{"no such program"}),
        AttemptEnd(NotStarted{"No space left on device", NotStarted::Cause::shortage}),
        AttemptEnd(NotStarted{"memory is not back", NotStarted::Cause::gpus})})
    EXPECT_EQ(parse_attempt(begun_line(keeper) + ended_line(end)), (AttemptRecord{keeper, end}));
}

TEST(AttemptFile, ALineThatWasNotFinishedNeverHappened) {
  const std::string begun = begun_line(keeper), ended = ended_line(CommandEnd{});
  for (std::size_t length = 0; length < begun.size(); ++length)
    EXPECT_EQ(parse_attempt(begun.substr(0, length)), AttemptRecord{});
  for (std::size_t length = 0; length < ended.size(); ++length)
    EXPECT_EQ(parse_attempt(begun + ended.substr(0, length)), (AttemptRecord{keeper, {}}));
}

TEST(AttemptFile, AnEndBeforeTheBeginningIsNotItsOwn) {
  EXPECT_EQ(parse_attempt(ended_line(CommandEnd{}) + begun_line(keeper)), (AttemptRecord{keeper, {}}));
}

TEST(AttemptFile, ThatCannotBeReadTellsNothing) {
  const testing::ScratchFolder scratch;
  EXPECT_EQ(look_at_attempt(scratch.path() / "jobs/7/attempt-1.jsonl").lock, LockState::missing);
  std::filesystem::create_directory(scratch.path() / "folder");
  EXPECT_EQ(look_at_attempt(scratch.path() / "folder").lock, LockState::unknown);
  std::filesystem::create_symlink("loop", scratch.path() / "loop");
  EXPECT_EQ(look_at_attempt(scratch.path() / "loop").lock, LockState::unknown);
}

TEST(Attempt, MayBeRepeatedOnlyWhereItIsKnownThatTheCommandDidNotBegin) {
  const std::string begun = begun_line({4711, 12});
  const std::string short_of_disk = ended_line(NotStarted{"No space left on device", NotStarted::Cause::shortage});
  for (const std::string& text : {std::string(), std::string("{\"event\":\"beg"), short_of_disk, begun + short_of_disk})
    EXPECT_TRUE(parse_attempt(text).may_be_repeated()) << text;
  for (const std::string& text :
       {begun, begun + ended_line(CommandEnd{HowEnded::exited, 0}), short_of_disk + begun, std::string("\x17garbage\n"),
        begun + ended_line(NotStarted{"no such program"})})
    EXPECT_FALSE(parse_attempt(text).may_be_repeated()) << text;
}

TEST(Attempt, TellsAShortageFromACommandThatCannotBeRun) {
  for (const int reason : {ENOSPC, EDQUOT, EAGAIN, EMFILE, ENFILE, ENOMEM})
    EXPECT_EQ(NotStarted::because("x", reason).cause, NotStarted::Cause::shortage) << reason;
  for (const int reason : {ENOENT, EACCES, ENOEXEC, ENOTDIR, E2BIG})
    EXPECT_EQ(NotStarted::because("x", reason).cause, NotStarted::Cause::command) << reason;
}

}  // namespace
}  // namespace muster::queue
