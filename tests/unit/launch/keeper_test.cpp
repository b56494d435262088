#include "launch/keeper/keeper.hpp"

#include <sched.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "system/process.hpp"
#include "keeper_fixture.hpp"
#include "testing/contains.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::launch {
namespace {

using testing::contains;

class Keeping : public KeeperTest {};
MUSTER_WITH_AND_WITHOUT_CONTROL_GROUPS(Keeping);

TEST_P(Keeping, TellsTheStartAndTheEndOfEachWorker) {
  ObservedKeeper keeper(GetParam());
  std::vector<WorkerCommand> workers;
  for (int rank = 0; rank < 8; ++rank) workers.push_back(shell("exit " + std::to_string(rank)));
  keeper.run(workers);
  std::map<int, pid_t> started;
  std::map<int, WorkerExited> exited;
  while (exited.size() < workers.size()) {
    const KeeperEvent event = keeper.next();
    if (const auto* start = std::get_if<WorkerStarted>(&event)) {
      started[start->local_rank] = start->pid;
    } else {
      const auto& end = std::get<WorkerExited>(event);
      ASSERT_TRUE(started.contains(end.local_rank)) << "ended before it started";
      exited[end.local_rank] = end;
    }
  }
  for (const auto& [rank, end] : exited) {
    EXPECT_EQ(end.pid, started[rank]);
    EXPECT_EQ(end.end, (ProcessEnd{rank, std::nullopt, false}));
    EXPECT_LT(std::chrono::abs(std::chrono::system_clock::now() - end.time), std::chrono::minutes(5));
  }
}

TEST_P(Keeping, TellsTheSignalThatEndedAWorker) {
  ObservedKeeper keeper(GetParam());
  keeper.run({shell("kill -USR1 $$")});
  EXPECT_EQ(keeper.wait_for<WorkerExited>().end, (ProcessEnd{std::nullopt, SIGUSR1, false}));
}

// Stopped while they end, the keeper learns of all of them at once.
TEST_P(Keeping, TellsExitsInTheOrderInWhichTheKernelSawThem) {
  constexpr std::size_t count = 100;
  ObservedKeeper keeper(GetParam());
  keeper.run(std::vector<WorkerCommand>(count, command({"sleep", "1000"})));
  std::vector<pid_t> pids = keeper.wait_for_starts(count);
  ::kill(keeper->pid(), SIGSTOP);
  ASSERT_EQ(::waitpid(keeper->pid(), nullptr, WUNTRACED), keeper->pid());
  std::ranges::shuffle(pids, std::mt19937(7));
  for (const pid_t pid : pids) {
    const FileDescriptor handle = open_process(pid);
    ::kill(pid, SIGKILL);
    ASSERT_TRUE(wait_for_end(handle, std::chrono::steady_clock::now() + long_enough));
  }
  ::kill(keeper->pid(), SIGCONT);
  std::vector<pid_t> told;
  while (told.size() < count) told.push_back(keeper.wait_for<WorkerExited>().pid);
  EXPECT_EQ(told, pids);
}

// The keeper runs and hands out events while others are still coming in.
TEST_P(Keeping, TellsExitsInOrderWhileItIsBusyTellingThem) {
  constexpr std::size_t count = 100;
  ObservedKeeper keeper(GetParam());
  keeper.run(std::vector<WorkerCommand>(count, command({"sleep", "1000"})));
  std::vector<pid_t> pids = keeper.wait_for_starts(count);
  std::ranges::shuffle(pids, std::mt19937(11));
  for (const pid_t pid : pids) {
    const FileDescriptor handle = open_process(pid);
    ::kill(pid, SIGKILL);
    ASSERT_TRUE(wait_for_end(handle, std::chrono::steady_clock::now() + long_enough));
  }
  std::vector<pid_t> told;
  while (told.size() < count) told.push_back(keeper.wait_for<WorkerExited>().pid);
  EXPECT_EQ(told, pids);
}

TEST_P(Keeping, SaysWhyAProgramCannotBeRun) {
  const testing::ScratchFolder folder;
  const std::string text = folder.write("text", "words").string();
  ObservedKeeper keeper(GetParam());
  keeper.run({command({"/nonexistent/program"}), command({"no-such-program-anywhere"}), command({text}), command({}),
              shell("exit 5")});
  std::map<int, std::string> reasons;
  std::vector<int> exited;
  while (reasons.size() + exited.size() < 5) {
    const KeeperEvent event = keeper.next();
    if (const auto* failed = std::get_if<WorkerNotStarted>(&event)) reasons[failed->local_rank] = failed->reason;
    if (const auto* ended = std::get_if<WorkerExited>(&event)) exited.push_back(ended->local_rank);
  }
  EXPECT_EQ(reasons[0], "cannot run /nonexistent/program: No such file or directory");
  EXPECT_EQ(reasons[1], "cannot run no-such-program-anywhere: No such file or directory");
  EXPECT_EQ(reasons[2], "cannot run " + text + ": Permission denied");
  EXPECT_EQ(reasons[3], "there is no command to run");
  EXPECT_EQ(exited, std::vector<int>{4});
  keeper->end_all(std::chrono::seconds(0));
  const KeeperEvent last = keeper.next();  // and no exit of those that never ran
  ASSERT_TRUE(std::holds_alternative<AllGone>(last));
  EXPECT_EQ(std::get<AllGone>(last).killed, 0);
}

TEST_P(Keeping, FindsAProgramThroughThePathThatTheWorkerGets) {
  const testing::ScratchFolder folder;
  const std::string tool = folder.write("only-here", "#!/bin/sh\nexit 7\n").string();
  ASSERT_EQ(::chmod(tool.c_str(), 0755), 0);
  ObservedKeeper keeper(GetParam());
  WorkerCommand worker = command({"only-here"});
  worker.environment = {{"PATH", "/nonexistent:" + folder.path().string()}};
  keeper.run({worker});
  EXPECT_EQ(keeper.wait_for<WorkerExited>().end.exit_code, 7);
}

std::set<int> inheritable_descriptors() {
  std::set<int> numbers{0, 1, 2};
  for (int number = 3; number < 256; ++number)
    if (const int flags = ::fcntl(number, F_GETFD); flags >= 0 && (flags & FD_CLOEXEC) == 0) numbers.insert(number);
  return numbers;
}

TEST_P(Keeping, GivesWorkersTheInheritableDescriptorsAndNoOthers) {
  const FileDescriptor lease(::open("/dev/null", O_RDONLY));
  const FileDescriptor own(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const std::set<int> expected = inheritable_descriptors();
  ASSERT_TRUE(expected.contains(lease.number()));
  ASSERT_FALSE(expected.contains(own.number()));
  ObservedKeeper keeper(GetParam());
  const FileDescriptor later(::open("/dev/null", O_RDONLY));
  Lines lines;
  Lines other;
  const std::string script =
      "i=0; while [ $i -lt 256 ]; do [ -e /proc/self/fd/$i ] && echo $i; i=$((i+1)); done; echo end";
  keeper.run({shell("sleep 1000", other.writer()), shell("sleep 1000", other.writer()), shell(script, lines.writer())});
  std::set<int> seen;
  for (std::string line = lines.next(); line != "end"; line = lines.next()) seen.insert(std::stoi(line));
  EXPECT_EQ(seen, expected);
}

TEST_P(Keeping, DoesNotHoldWhatTheLauncherClosesAtExec) {
  Lines own;
  ObservedKeeper keeper(GetParam());
  keeper.run({command({"sleep", "1000"})});
  keeper.wait_for_starts(1);
  own.close_writer();
  EXPECT_TRUE(own.at_end());
}

TEST_P(Keeping, LetsGoOfTheOutputOnceTheWorkerHasIt) {
  ObservedKeeper keeper(GetParam());
  Lines lines;
  keeper.run({shell("echo said", lines.writer())});
  lines.close_writer();
  EXPECT_EQ(lines.next(), "said");
  EXPECT_TRUE(lines.at_end());
}

TEST_P(Keeping, TakesOutputAndErrorsApart) {
  ObservedKeeper keeper(GetParam());
  Lines output, errors;
  WorkerCommand worker = shell("echo right; echo wrong >&2", output.writer());
  worker.errors = errors.writer();
  keeper.run({worker});
  EXPECT_EQ(output.next(), "right");
  EXPECT_EQ(errors.next(), "wrong");
}

// Signals that this process ignores and blocks, for as long as the object lives.
class UnusualSignals {
 public:
  UnusualSignals() {
    ::signal(SIGUSR1, SIG_IGN);
    sigset_t blocked;
    ::sigemptyset(&blocked);
    ::sigaddset(&blocked, SIGUSR2);
    ::sigprocmask(SIG_BLOCK, &blocked, &before_);
  }
  UnusualSignals(const UnusualSignals&) = delete;
  UnusualSignals& operator=(const UnusualSignals&) = delete;
  ~UnusualSignals() {
    ::signal(SIGUSR1, SIG_DFL);
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t before_;
};

TEST_P(Keeping, GivesWorkersASessionOfTheirOwnAndDefaultSignals) {
  const UnusualSignals unusual;
  ObservedKeeper keeper(GetParam());
  Lines lines;
  keeper.run(
      {command({"grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"}, lines.writer()), command({"sleep", "1000"})});
  EXPECT_EQ(lines.next(), "SigBlk:\t0000000000000000");
  EXPECT_EQ(lines.next(), "SigIgn:\t0000000000000000");
  const pid_t pid = keeper.wait_for_starts(2)[1];
  const auto status = read_process_status(pid);
  ASSERT_TRUE(status);
  EXPECT_EQ(status->session, pid);
  EXPECT_EQ(status->group, pid);
  EXPECT_EQ(status->parent, keeper->pid());
}

TEST_P(Keeping, RestrictsAWorkerToItsCpus) {
  cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
  int last = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &allowed)) last = cpu;
  ObservedKeeper keeper(GetParam());
  Lines lines;
  WorkerCommand worker = command({"grep", "Cpus_allowed_list", "/proc/self/status"}, lines.writer());
  worker.cpus = {last};
  keeper.run({worker});
  EXPECT_EQ(lines.next(), "Cpus_allowed_list:\t" + std::to_string(last));
}

TEST_P(Keeping, RefusesCpusThatTheMachineDoesNotHave) {
  ObservedKeeper keeper(GetParam());
  WorkerCommand worker = command({"true"});
  worker.cpus = {100000};
  keeper.run({worker});
  EXPECT_TRUE(contains(keeper.wait_for<WorkerNotStarted>().reason, "CPUs", "Invalid argument"));
}

TEST_P(Keeping, HandsOverLargeEnvironments) {
  ObservedKeeper keeper(GetParam());
  Lines lines;
  WorkerCommand worker = shell("echo ${#LARGE0} ${#LARGE9} $LAST", lines.writer());
  for (int i = 0; i < 10; ++i) worker.environment.emplace_back("LARGE" + std::to_string(i), std::string(100'000, 'x'));
  worker.environment.emplace_back("LAST", "\xff=1");  // any bytes
  keeper.run(std::vector<WorkerCommand>(8, worker));
  for (int rank = 0; rank < 8; ++rank) EXPECT_EQ(lines.next(), "100000 100000 \xff=1");
}

TEST_P(Keeping, RefusesADescriptorThatIsNotOpen) {
  ObservedKeeper keeper(GetParam());
  EXPECT_FALSE(keeper->start_workers({command({"true"}, 9999)}));
  keeper.run({command({"true"})});
  EXPECT_EQ(keeper.wait_for<WorkerExited>().end.exit_code, 0);
}

// More than a socket holds.
TEST_P(Keeping, KeepsEventsUntilTheyAreRead) {
  constexpr int count = 600;
  ObservedKeeper keeper(GetParam());
  Lines lines;
  keeper.run(std::vector<WorkerCommand>(count, command({"true"}, lines.writer())));
  lines.close_writer();
  ASSERT_TRUE(lines.at_end());
  int started = 0, exited = 0;
  while (exited < count) {
    const KeeperEvent event = keeper.next();
    started += std::holds_alternative<WorkerStarted>(event) ? 1 : 0;
    exited += std::holds_alternative<WorkerExited>(event) ? 1 : 0;
  }
  EXPECT_EQ(started, count);
}

TEST_P(Keeping, SignalsTheWholeGroupOfEachWorker) {
  ObservedKeeper keeper(GetParam());
  Lines lines;
  const std::string with_helper = "sleep 1000 & echo $!; wait";
  keeper.run({shell(with_helper, lines.writer()), shell(with_helper, lines.writer())});
  keeper.wait_for_starts(2);
  const Watched helpers({lines.next_pid(), lines.next_pid()});
  keeper->signal_workers(SIGTERM);
  EXPECT_EQ(keeper.wait_for<WorkerExited>().end.signal, SIGTERM);
  EXPECT_EQ(keeper.wait_for<WorkerExited>().end.signal, SIGTERM);
  EXPECT_TRUE(helpers.all_end());
}

TEST_P(Keeping, SignalsOneWorkerAlone) {
  ObservedKeeper keeper(GetParam());
  keeper.run({command({"sleep", "1000"}), command({"sleep", "1000"}), command({"sleep", "1000"})});
  const std::vector<pid_t> pids = keeper.wait_for_starts(3);
  const Watched others({pids[0], pids[2]});
  keeper->signal_worker(1, SIGUSR1);
  const WorkerExited exited = keeper.wait_for<WorkerExited>();
  EXPECT_EQ(exited.local_rank, 1);
  EXPECT_EQ(exited.end.signal, SIGUSR1);
  EXPECT_TRUE(others.all_live());
}

TEST_P(Keeping, LetsAStoppedWorkerObey) {
  ObservedKeeper keeper(GetParam());
  Lines lines;
  keeper.run({shell("trap 'exit 4' TERM; echo ready; kill -STOP $$; while :; do :; done", lines.writer())});
  EXPECT_EQ(lines.next(), "ready");
  keeper->signal_workers(SIGTERM);
  EXPECT_EQ(keeper.wait_for<WorkerExited>().end.exit_code, 4);
}

TEST_P(Keeping, StartsWorkersAgainAfterAllAreGone) {
  ObservedKeeper keeper(GetParam());
  for (int attempt = 0; attempt < 3; ++attempt) {
    keeper.run({command({"sleep", "1000"}), shell("exit 9")});
    EXPECT_EQ(keeper.wait_for<WorkerExited>().end.exit_code, 9);
    keeper->end_all(std::chrono::seconds(0));
    EXPECT_EQ(keeper.wait_for<WorkerExited>().end.signal, SIGKILL);
    EXPECT_EQ(keeper.wait_for<AllGone>().killed, 0);
  }
}

}  // namespace
}  // namespace muster::launch
