// What a program in a sandbox tries to use up, and what is left of it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <thread>
#include <vector>

#include "sandbox_fixture.hpp"

namespace muster::sandbox {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class Exhaustion : public Confined {
 protected:
  static bool has_children() { return ::waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD; }

  // Processes of the sandbox hold the other end; whether there are none any more.
  static bool is_closed(const FileDescriptor& pipe) {
    char byte = 0;
    return ::read(pipe.number(), &byte, 1) == 0;
  }
  static std::array<FileDescriptor, 2> pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) throw std::runtime_error("pipe");
    return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
  }
};

TEST_P(Exhaustion, OfTheCpuEndsALoop) {
  Limits limits;
  limits.cpu_time = seconds(1);
  const Outcome outcome = run("while True: pass", limits);
  EXPECT_EQ(outcome.exceeded, LimitKind::cpu_time);
  EXPECT_GE(outcome.cpu_time, milliseconds(900));
  EXPECT_FALSE(has_children());
}

TEST_P(Exhaustion, OfTheCpuEndsALoopThatIgnoresTheSignal) {
  Limits limits;
  limits.cpu_time = seconds(1);
  const Outcome outcome = run("import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass", limits);
  EXPECT_EQ(outcome.exceeded, LimitKind::cpu_time);
  EXPECT_EQ(outcome.end.signal, SIGKILL);
}

TEST_P(Exhaustion, OfTimeEndsASleeper) {
  Limits limits;
  limits.wall_time = milliseconds(300);
  const Outcome outcome = run("import signal, time\nfor number in range(1, 32):\n try: signal.signal(number, signal.SIG_IGN)\n"
                              " except OSError: pass\ntime.sleep(1000)", limits);
  EXPECT_EQ(outcome.exceeded, LimitKind::wall_time);
  EXPECT_FALSE(has_children());
}

TEST_P(Exhaustion, OfOutputEndsAWriterOfTenGigabytes) {
  Limits limits;
  limits.output = {100'000};
  const Outcome outcome = run("import os\nfor _ in range(10_000): os.write(1, b'x' * 1_000_000)", limits);
  EXPECT_EQ(outcome.exceeded, LimitKind::output);
  EXPECT_EQ(outcome.output.size(), 100'000U);
}

TEST_P(Exhaustion, OfMemoryIsAnErrorOfTheProgram) {
  Limits limits;
  limits.memory = mebibytes(256);
  const Outcome outcome = run("print(len(bytearray(1 << 20)))\nbytearray(1 << 32)", limits);
  EXPECT_EQ(outcome.output, "1048576\n");
  EXPECT_NE(outcome.errors.find("MemoryError"), std::string::npos) << outcome.errors;
  EXPECT_EQ(outcome.end.exit_code, 1);
}

TEST_P(Exhaustion, OfProcessesIsRefusedFromTheFirst) {
  const Outcome outcome = run("import os, subprocess\nfor work in (os.fork, lambda: subprocess.run(['/bin/true'])):\n"
                              " try: work(); print('started')\n except PermissionError: print('refused')");
  EXPECT_EQ(outcome.output, "refused\nrefused\n") << outcome.errors;
}

TEST_P(Exhaustion, OfThreadsIsRefused) {
  // Never more than this machine bears, should nothing refuse them.
  const Outcome outcome = run(R"py(
import threading
threading.stack_size(1 << 16)
stop, started = threading.Event(), 0
try:
    for _ in range(3000):
        threading.Thread(target=stop.wait, daemon=True).start()
        started += 1
except RuntimeError: print("refused", started < 600)
stop.set()
)py");
  EXPECT_EQ(outcome.output, "refused True\n") << outcome.errors;
}

TEST_P(Exhaustion, OfProcessesLeavesNoneBehind) {
  if (!has_namespaces()) GTEST_SKIP() << "Landlock allows one process";
  auto [ours, theirs] = pipe();
  // Never more than this machine bears, should nothing refuse them. Children leave the session, and have no parent soon.
  Order order = python(R"py(
import os, time
started = 0
try:
    for _ in range(500):
        if os.fork() == 0:
            os.setsid()
            time.sleep(1000)
        started += 1
except OSError as error: print(type(error).__name__, started)
)py");
  order.handed.push_back(std::move(theirs));
  Limits limits;
  limits.processes = 8;
  const Outcome outcome = run(std::move(order), limits);
  EXPECT_EQ(outcome.output, "BlockingIOError 39\n") << outcome.errors;  // 8 and 32 threads, less the first
  EXPECT_TRUE(is_closed(ours));
  EXPECT_FALSE(has_children());
}

TEST_P(Exhaustion, OfProcessesByOrphansIsTakenIn) {
  if (!has_namespaces()) GTEST_SKIP() << "Landlock allows one process";
  Limits limits;
  limits.processes = 8;
  const Outcome outcome = run(R"py(
import os, time
for _ in range(200):
    child = os.fork()
    if child == 0:
        if os.fork() == 0: os._exit(0)
        os._exit(0)
    os.waitpid(child, 0)
    time.sleep(0.005)
print("all")
)py", limits);
  EXPECT_EQ(outcome.output, "all\n") << outcome.errors;
}

TEST_P(Exhaustion, OfFilesIsRefused) {
  if (!has_namespaces()) GTEST_SKIP() << "Landlock allows no file";
  Limits limits;
  limits.files = mebibytes(4);
  const Outcome outcome = run(R"py(
written = 0
for number in range(64):
    try: written += open(f"/tmp/{number}", "wb", buffering=0).write(bytes(1 << 20))
    except OSError: pass
print(1 << 20 <= written <= 4 << 20)
)py", limits);
  EXPECT_EQ(outcome.output, "True\n") << outcome.errors;
}

TEST_P(Exhaustion, EndsWhenTheOneWhoWaitsIsGone) {
  auto [until, ours] = pipe();
  Order order = python("import time; time.sleep(1000)");
  order.until = std::move(until);
  std::jthread later([end = std::move(ours)]() mutable {
    std::this_thread::sleep_for(milliseconds(200));
    FileDescriptor(std::move(end));
  });
  const Outcome outcome = run(std::move(order));
  later.join();
  EXPECT_EQ(outcome.end.signal, SIGKILL);
  EXPECT_FALSE(outcome.exceeded);
  EXPECT_TRUE(outcome.called_off);
}

TEST_P(Exhaustion, RunsManyAtATime) {
  std::vector<std::jthread> threads;
  std::array<int, 6> good{};
  for (int& count : good)
    threads.emplace_back([&] {
      for (int i = 0; i < 4; ++i)
        if (run("print(6 * 7)").output == "42\n") ++count;
    });
  threads.clear();
  for (const int count : good) EXPECT_EQ(count, 4);
  EXPECT_FALSE(has_children());
}

TEST_P(Exhaustion, RefusesAProgramThatIsNotThere) {
  Order order;
  order.command = {"/usr/nonexistent"};
  const auto outcome = sandbox().run(std::move(order), {});
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().kind, Error::Kind::bad_input);
  EXPECT_NE(outcome.error().what.find("/usr/nonexistent: No such file or directory"), std::string::npos)
      << outcome.error().what;
}

INSTANTIATE_TEST_SUITE_P(Under, Exhaustion, ::testing::Values(Isolation::namespaces, Isolation::landlock), name_of);

TEST(Grants, AreWhatASandboxIsOpenedWith) {
  const Grants grants = probe();
  const auto sandbox = Sandbox::open();
  EXPECT_EQ(bool(sandbox), grants.namespaces || grants.landlock);
  if (sandbox) {
    EXPECT_EQ(sandbox->isolation(), grants.namespaces ? Isolation::namespaces : Isolation::landlock);
  }
  for (const auto* grant : {&grants.namespaces, &grants.landlock})
    EXPECT_TRUE(*grant || !grant->error().remedy.empty());
}

TEST(Grants, OfLandlockDoNotExtendToSeveralProcesses) {
  const auto sandbox = Sandbox::open(Isolation::landlock);
  if (!sandbox) GTEST_SKIP() << to_string(sandbox.error());
  Order order;
  order.command = {"/bin/sh", "-c", ":"};
  Limits limits;
  limits.processes = 2;
  const auto outcome = sandbox->run(std::move(order), limits);
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().kind, Error::Kind::refused);
}

}  // namespace
}  // namespace muster::sandbox
