#include "system/subprocess.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <stdexcept>

#include "system/files.hpp"
#include "base/text.hpp"
#include "testing/environment_variable.hpp"
#include "testing/scratch_folder.hpp"

namespace muster {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds long_enough(60000);

Result<ProcessOutput> run_shell(const std::string& script, milliseconds limit = long_enough) {
  return run_process({"sh", "-c", script}, {}, limit);
}

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}

TEST(RunProcess, TellsOutputErrorsAndExitCodeApart) {
  const auto run = run_shell("echo seen; echo wrong >&2; exit 7");
  ASSERT_TRUE(run);
  EXPECT_EQ(run->output, "seen\n");
  EXPECT_EQ(run->errors, "wrong\n");
  EXPECT_EQ(run->end, (ProcessEnd{7, std::nullopt, false}));
}

TEST(RunProcess, TellsTheSignalThatEndedIt) {
  const auto run = run_shell("kill -TERM $$");
  ASSERT_TRUE(run);
  EXPECT_EQ(run->end, (ProcessEnd{std::nullopt, SIGTERM, false}));
}

TEST(RunProcess, RefusesAProgramThatDoesNotExist) {
  const auto run = run_process({"/nonexistent/program"}, {}, long_enough);
  ASSERT_FALSE(run);
  EXPECT_NE(run.error().what.find("/nonexistent/program: No such file or directory"), std::string::npos)
      << run.error().what;
  EXPECT_FALSE(run.error().remedy.empty());
}

TEST(RunProcess, RefusesAFileThatIsNoProgram) {
  const testing::ScratchFolder folder;
  const auto run = run_process({folder.write("text", "words").string()}, {}, long_enough);
  ASSERT_FALSE(run);
  EXPECT_NE(run.error().what.find("Permission denied"), std::string::npos) << run.error().what;
}

TEST(RunProcess, DrainsBothPipesBeyondWhatTheyHold) {
  const auto run = run_shell("head -c 1000000 /dev/zero >&2; head -c 2000000 /dev/zero");
  ASSERT_TRUE(run);
  EXPECT_EQ(run->output.size(), 2000000U);
  EXPECT_EQ(run->errors.size(), 1000000U);
}

TEST(RunProcess, ReplacesAndAddsVariablesAndKeepsTheOthers) {
  const testing::EnvironmentVariable kept("MUSTER_TEST_KEPT", "kept"), changed("MUSTER_TEST_CHANGED", "before");
  const auto run = run_process(
      {"sh", "-c", "echo $MUSTER_TEST_KEPT $MUSTER_TEST_CHANGED $MUSTER_TEST_ADDED; env | grep -c MUSTER_TEST_CHANGED"},
      {{"MUSTER_TEST_CHANGED", "after"}, {"MUSTER_TEST_ADDED", "a=b"}}, long_enough);
  ASSERT_TRUE(run);
  EXPECT_EQ(run->output, "kept after a=b\n1\n");
}

TEST(RunProcess, GivesNothingToRead) {
  const auto run = run_shell("cat; echo end");
  ASSERT_TRUE(run);
  EXPECT_EQ(run->output, "end\n");
}

TEST(RunProcess, KillsAtTheLimitAndKeepsWhatWasWritten) {
  const auto run = run_shell("trap '' TERM INT; echo begun; while :; do sleep 1000; done", milliseconds(2000));
  ASSERT_TRUE(run);
  EXPECT_TRUE(run->end.timed_out);
  EXPECT_EQ(run->end.signal, SIGKILL);
  EXPECT_EQ(run->output, "begun\n");
}

TEST(RunProcess, KillsWhatItStartedAtTheLimit) {
  const testing::ScratchFolder folder;
  const std::string file = (folder.path() / "pid").string();
  const auto run = run_shell("sleep 1000 & echo $! >" + file + "; wait", milliseconds(2000));
  ASSERT_TRUE(run);
  ASSERT_TRUE(run->end.timed_out);
  const auto pid = parse_number<pid_t>(trim(*read_file(file)));
  ASSERT_TRUE(pid);
  // Dead, though perhaps not yet collected by whoever inherited it.
  const auto state = [&] {
    const auto text = read_file("/proc/" + std::to_string(*pid) + "/stat");
    return text ? text->substr(text->find(')') + 2, 1) : "gone";
  };
  for (int look = 0; look < 1000 && state() != "Z" && state() != "gone"; ++look) ::usleep(10000);
  EXPECT_TRUE(state() == "Z" || state() == "gone") << state();
}

TEST(RunProcess, KillsAProcessThatClosedItsOutputAndRunsOn) {
  const auto run = run_shell("exec >&- 2>&-; sleep 1000", milliseconds(300));
  ASSERT_TRUE(run);
  EXPECT_TRUE(run->end.timed_out);
}

TEST(RunProcess, DoesNotWaitForWhatIsLeftBehind) {
  const testing::ScratchFolder folder;
  const std::string file = (folder.path() / "pid").string();
  const auto run = run_shell("sleep 1000 & echo $! >" + file + "; echo left");
  const auto pid = parse_number<pid_t>(trim(*read_file(file)));
  ASSERT_TRUE(pid);
  ::kill(*pid, SIGKILL);
  ASSERT_TRUE(run);
  EXPECT_EQ(run->end, (ProcessEnd{0, std::nullopt, false}));
  EXPECT_EQ(run->output, "left\n");
}

TEST(RunProcess, LeaksNoDescriptorAndLeavesNoZombie) {
  const auto before = open_descriptors();
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(run_shell("echo some; exit 1"));
    EXPECT_FALSE(run_process({"/nonexistent/program"}, {}, long_enough));
    EXPECT_TRUE(run_shell("sleep 1000", milliseconds(20)));
  }
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(RunProcess, PassesOnlyTheThreeStandardDescriptorsOfItsOwn) {
  std::ptrdiff_t inherited = 0;  // what whoever started this test lets every program have
  for (int number = STDERR_FILENO + 1; number < 1024; ++number)
    if (const int flags = ::fcntl(number, F_GETFD); flags >= 0 && (flags & FD_CLOEXEC) == 0) ++inherited;
  const auto run = run_process({"ls", "/proc/self/fd"}, {}, long_enough);
  ASSERT_TRUE(run);
  EXPECT_EQ(std::ranges::count(run->output, '\n'), 3 + inherited + 1) << "one is the folder that ls reads\n"
                                                                      << run->output;
}

TEST(RunProcess, GivesDefaultSignalsToTheProgram) {
  struct sigaction before = {}, ignored = {};
  ignored.sa_handler = SIG_IGN;
  ASSERT_EQ(::sigaction(SIGUSR1, &ignored, &before), 0);
  const auto run = run_shell("kill -USR1 $$; echo survived");
  ::sigaction(SIGUSR1, &before, nullptr);
  ASSERT_TRUE(run);
  EXPECT_EQ(run->end.signal, SIGUSR1);
}

TEST(RunProcess, SurvivesSignalsThatInterruptIt) {
  struct sigaction before = {}, counted = {};
  counted.sa_handler = [](int) {};
  ASSERT_EQ(::sigaction(SIGUSR2, &counted, &before), 0);
  const auto run = run_shell("for i in 1 2 3 4 5; do kill -USR2 $PPID; echo $i; sleep 0.01; done");
  ::sigaction(SIGUSR2, &before, nullptr);
  ASSERT_TRUE(run);
  EXPECT_EQ(run->output, "1\n2\n3\n4\n5\n");
  EXPECT_EQ(run->end.exit_code, 0);
}

TEST(RunInChild, ReturnsWhatTheWorkReturns) {
  const auto end = run_in_child([] { return 42; }, long_enough);
  ASSERT_TRUE(end);
  EXPECT_EQ(*end, (ProcessEnd{42, std::nullopt, false}));
}

TEST(RunInChild, KeepsTheParentsMemoryAsItIs) {
  int value = 1;
  ASSERT_TRUE(run_in_child([&] { return value = 2; }, long_enough));
  EXPECT_EQ(value, 1);
}

TEST(RunInChild, TellsTheSignalOfAChildThatCrashes) {
  const auto end = run_in_child([] { return ::raise(SIGSEGV); }, long_enough);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->signal, SIGSEGV);
}

TEST(RunInChild, EndsTheChildWhenTheWorkThrows) {
  const auto end = run_in_child([]() -> int { throw std::runtime_error("meant to be thrown"); }, long_enough);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->signal, SIGABRT);
}

TEST(RunInChild, ResetsHandlersSoThatASignalIsSeen) {
  struct sigaction before = {}, ignored = {};
  ignored.sa_handler = SIG_IGN;
  ASSERT_EQ(::sigaction(SIGILL, &ignored, &before), 0);
  const auto end = run_in_child([] { return ::raise(SIGILL); }, long_enough);
  ::sigaction(SIGILL, &before, nullptr);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->signal, SIGILL);
}

TEST(RunInChild, KillsAChildThatHangsWithItsSignalsBlocked) {
  const auto work = [] {
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    while (true) ::pause();
    return 0;
  };
  const auto end = run_in_child(work, milliseconds(50));
  ASSERT_TRUE(end);
  EXPECT_TRUE(end->timed_out);
}

TEST(RunInChild, ForbidsACoreThere) {
  const auto work = [] {
    rlimit limit = {};
    ::getrlimit(RLIMIT_CORE, &limit);
    return limit.rlim_cur == 0 ? 0 : 1;
  };
  EXPECT_EQ(run_in_child(work, long_enough)->exit_code, 0);
}

TEST(ProcessEnd, IsDescribedInWords) {
  EXPECT_EQ(describe(ProcessEnd{3, std::nullopt, false}, milliseconds(2000)), "exit code 3");
  EXPECT_EQ(describe(ProcessEnd{std::nullopt, SIGILL, false}, milliseconds(2000)), "signal 4 (Illegal instruction)");
  EXPECT_EQ(describe(ProcessEnd{std::nullopt, SIGKILL, true}, milliseconds(2000)), "still running after 2 s, killed");
}

}  // namespace
}  // namespace muster
