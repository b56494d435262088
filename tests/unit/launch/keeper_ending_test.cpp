// What is left after an end: nothing, whoever is killed.
#include <cstdlib>
#include <optional>

#include "system/process.hpp"
#include "keeper_fixture.hpp"

namespace muster::launch {
namespace {

constexpr std::chrono::milliseconds at_once(0);

class Ends : public KeeperTest {};
MUSTER_WITH_AND_WITHOUT_CONTROL_GROUPS(Ends);

TEST_P(Ends, WhatObeysWithinTheGrace) {
  ObservedKeeper keeper(GetParam());
  Lines lines;
  keeper.run({shell("trap 'exit 3' TERM; echo ready; while :; do sleep 0.01; done", lines.writer())});
  EXPECT_EQ(lines.next(), "ready");
  keeper->end_all(std::chrono::hours(1));
  EXPECT_EQ(keeper.wait_for<WorkerExited>().end.exit_code, 3);
  EXPECT_EQ(keeper.wait_for<AllGone>().killed, 0);
}

TEST_P(Ends, WhatDoesNotObeyAfterTheGrace) {
  ObservedKeeper keeper(GetParam());
  Lines lines;
  keeper.run({shell("trap 'echo asked' TERM; echo ready; while :; do sleep 0.01; done", lines.writer())});
  EXPECT_EQ(lines.next(), "ready");
  keeper->end_all(std::chrono::milliseconds(300));
  EXPECT_EQ(lines.next(), "asked");
  EXPECT_EQ(keeper.wait_for<WorkerExited>().end.signal, SIGKILL);
  keeper.wait_for<AllGone>();
}

TEST_P(Ends, AtOnceWhenAskedAgainWithoutGrace) {
  ObservedKeeper keeper(GetParam());
  Lines lines;
  keeper.run({shell("trap 'echo asked' TERM; echo ready; while :; do sleep 0.01; done", lines.writer())});
  EXPECT_EQ(lines.next(), "ready");
  keeper->end_all(std::chrono::hours(1));
  EXPECT_EQ(lines.next(), "asked");
  keeper->end_all(at_once);
  EXPECT_EQ(keeper.wait_for<WorkerExited>().end.signal, SIGKILL);
  keeper.wait_for<AllGone>();
}

// One in the rank's session, one in its own.
const std::string leave_two = "sleep 1000 & echo $!; (setsid sleep 1000 & echo $!)";

TEST_P(Ends, AndCountsWhatTheRanksLeftBehind) {
  for (const auto grace : {at_once, std::chrono::milliseconds(3'600'000)}) {
    ObservedKeeper keeper(GetParam());
    Lines lines;
    keeper.run({shell(leave_two, lines.writer())});
    EXPECT_EQ(keeper.wait_for<WorkerExited>().end.exit_code, 0);
    const Watched left({lines.next_pid(), lines.next_pid()});
    keeper->end_all(grace);
    EXPECT_EQ(keeper.wait_for<AllGone>().killed, 2);
    EXPECT_TRUE(left.all_ended());
  }
}

TEST_P(Ends, WithoutCountingTheHelpersOfARunningRank) {
  ObservedKeeper keeper(GetParam());
  Lines lines;
  keeper.run({shell("sleep 1000 & sleep 1000 & echo ready; wait", lines.writer())});
  EXPECT_EQ(lines.next(), "ready");
  keeper->end_all(at_once);
  EXPECT_EQ(keeper.wait_for<AllGone>().killed, 0);
}

TEST_P(Ends, WhatLosesItsParentDuringTheGraceToo) {
  ObservedKeeper keeper(GetParam());
  Lines lines;
  // Asked to end, it starts another one, which was not asked, and leaves it once that is a program of its own.
  keeper.run(
      {shell("leave() { sleep 1000 & until grep -q sleep /proc/$!/comm; do :; done; exit 0; }; trap leave TERM;"
             "echo ready; while :; do sleep 0.01; done",
             lines.writer())});
  EXPECT_EQ(lines.next(), "ready");
  keeper->end_all(std::chrono::hours(1));
  EXPECT_EQ(keeper.wait_for<AllGone>().killed, 1);
}

TEST_P(Ends, WhileRanksCleanUpUndisturbed) {
  ObservedKeeper keeper(GetParam());
  Lines lines;
  keeper.run({shell("trap 'sleep 0.3 && echo cleaned; exit 0' TERM; echo ready; while :; do sleep 0.01; done",
                    lines.writer())});
  EXPECT_EQ(lines.next(), "ready");
  keeper->end_all(std::chrono::hours(1));
  EXPECT_EQ(lines.next(), "cleaned");
  keeper.wait_for<AllGone>();
}

// Every process of it forks and ends, so that none is there for long.
const std::string flee = "flee() { flee & }; echo ready; flee";
// And each in a session of its own.
const std::string flee_far = "export FLEE='setsid sh -c \"$FLEE\" &'; echo ready; eval \"$FLEE\"";

TEST_P(Ends, AProcessThatFleesByForking) {
  ObservedKeeper keeper(GetParam());
  Lines lines;
  keeper.run({shell(flee, lines.writer()), shell(flee_far, lines.writer())});
  EXPECT_EQ(lines.next(), "ready");
  EXPECT_EQ(lines.next(), "ready");
  keeper->end_all(at_once);
  keeper.wait_for<AllGone>();
}

TEST_P(Ends, EverythingWhenItIsDestroyed) {
  Lines lines;
  std::vector<pid_t> pids;
  std::optional<Watched> all;
  {
    ObservedKeeper keeper(GetParam());
    keeper.run({shell(leave_two, lines.writer()), command({"sleep", "1000"})});
    pids = {lines.next_pid(), lines.next_pid(), keeper->pid(), keeper.wait_for_starts(2)[1]};
    all.emplace(pids);
  }
  EXPECT_TRUE(all->all_ended());
}

// Those who make it hard: an ordinary helper, one without parent in a session of its own, one that does not listen, a
// stopped one, and one that flees.
std::vector<WorkerCommand> stubborn_workers(const Lines& lines) {
  return {shell("sleep 1000 & echo $!; echo $$; wait", lines.writer()),
          shell("(setsid sleep 1000 & echo $!); echo $$; sleep 1000", lines.writer()),
          shell("trap '' TERM HUP INT; sleep 1000 & echo $!; echo $$; wait", lines.writer()),
          shell("sleep 1000 & echo $!; echo $$; kill -STOP $!; kill -STOP $$", lines.writer()),
          shell("flee() { flee & }; flee; echo $$; exec sleep 1000", lines.writer())};
}
constexpr int stubborn_processes = 9;

TEST_P(Ends, EverythingWhenTheLauncherIsKilled) {
  Lines lines;
  ForkedProcess launcher([&] {
    ObservedKeeper keeper(GetParam());
    const std::string said = std::to_string(keeper->pid()) + "\n";
    if (::write(lines.writer(), said.data(), said.size()) < 0) ::_exit(1);
    keeper.run(stubborn_workers(lines));
    sleep_until_killed();
  });
  std::vector<pid_t> pids;
  for (int i = 0; i < stubborn_processes + 1; ++i) pids.push_back(lines.next_pid());
  const Watched all(pids);
  launcher.kill_now();
  EXPECT_TRUE(all.all_end());
}

TEST_P(Ends, EverythingWhenTheWholeGroupOfTheLauncherIsKilled) {
  Lines lines;
  ForkedProcess launcher([&] {
    ::setpgid(0, 0);
    ObservedKeeper keeper(GetParam());
    keeper.run({shell("(setsid sleep 1000 & echo $!); echo $$; exec sleep 1000", lines.writer())});
    sleep_until_killed();
  });
  const Watched all({lines.next_pid(), lines.next_pid()});
  ::kill(-launcher.pid(), SIGKILL);
  EXPECT_TRUE(all.all_end());
}

// A child of the launcher that keeps its files open does not keep the keeper from seeing that the launcher is gone.
TEST_P(Ends, EverythingThoughAForkOfTheKilledLauncherLives) {
  Lines lines;
  ForkedProcess launcher([&] {
    ObservedKeeper keeper(GetParam());
    keeper.run({shell("echo $$; exec sleep 1000", lines.writer())});
    const ForkedProcess fork(sleep_until_killed);
    const std::string said = std::to_string(fork.pid()) + "\n";
    if (::write(lines.writer(), said.data(), said.size()) < 0) ::_exit(1);
    sleep_until_killed();
  });
  std::vector<pid_t> pids{lines.next_pid(), lines.next_pid()};
  const bool fork_first = read_process_status(pids[0])->parent == launcher.pid();
  const pid_t fork = fork_first ? pids[0] : pids[1];
  const Watched worker({fork_first ? pids[1] : pids[0]});
  launcher.kill_now();
  EXPECT_TRUE(worker.all_end());
  ::kill(fork, SIGKILL);
  ::waitpid(fork, nullptr, 0);
}

TEST_P(Ends, EverythingWhenTheKeeperIsKilled) {
  Lines lines;
  ObservedKeeper keeper(GetParam());
  keeper.run(stubborn_workers(lines));
  std::vector<pid_t> pids;
  for (int i = 0; i < stubborn_processes; ++i) pids.push_back(lines.next_pid());
  const Watched all(pids);
  // A process of the launcher's own, in a session of its own.
  ForkedProcess foreign([] {
    ::setsid();
    sleep_until_killed();
  });
  const Watched untouched({foreign.pid()});
  ::kill(keeper->pid(), SIGKILL);
  keeper.wait_for<KeeperLost>();
  EXPECT_TRUE(all.all_ended());
  EXPECT_TRUE(untouched.all_live());
  EXPECT_TRUE(keeper->receive().empty());
  EXPECT_FALSE(keeper->start_workers({command({"true"})}));
}

TEST_P(Ends, EverythingWhenTheKeeperWasKilledAndNobodyAsked) {
  Lines lines;
  std::optional<Watched> all;
  {
    ObservedKeeper keeper(GetParam());
    keeper.run({shell("(setsid sleep 1000 & echo $!); echo $$; exec sleep 1000", lines.writer())});
    all.emplace(std::vector<pid_t>{lines.next_pid(), lines.next_pid()});
    ::kill(keeper->pid(), SIGKILL);
  }
  EXPECT_TRUE(all->all_ended());
}

TEST_P(Ends, NothingButWhatIsBelowIt) {
  ForkedProcess sibling(sleep_until_killed);
  ForkedProcess in_own_session([] {
    ::setsid();
    sleep_until_killed();
  });
  const Watched foreign({sibling.pid(), in_own_session.pid()});
  {
    ObservedKeeper keeper(GetParam());
    keeper.run({shell("sleep 1000 & exit 0")});
    keeper.wait_for<WorkerExited>();
    keeper->end_all(std::chrono::hours(1));
    EXPECT_EQ(keeper.wait_for<AllGone>().killed, 1);
    keeper.run({command({"sleep", "1000"})});
    keeper.wait_for_starts(1);
    keeper->end_all(at_once);
    keeper.wait_for<AllGone>();
  }
  EXPECT_TRUE(foreign.all_live());
}

// A terminal's Ctrl-C goes to the launcher's whole group; what becomes of the ranks is the launcher's decision.
TEST_P(Ends, NothingBySignalsToTheLaunchersGroup) {
  Lines lines;
  ForkedProcess launcher([&] {
    ::setpgid(0, 0);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, SIG_IGN);
    ObservedKeeper keeper(GetParam());
    keeper.run({shell("trap 'exit 6' USR1; echo ready; while :; do sleep 0.01; done", lines.writer())});
    const WorkerExited exited = keeper.wait_for<WorkerExited>();
    ::_exit(exited.end.exit_code.value_or(99));
  });
  EXPECT_EQ(lines.next(), "ready");
  std::vector<pid_t> ranks;
  for (const Descendant& found : find_descendants(launcher.pid()))
    if (found.status.session == found.status.identity.pid && found.status.parent != launcher.pid())
      ranks.push_back(found.status.identity.pid);
  ASSERT_EQ(ranks.size(), 1U);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::kill(-launcher.pid(), signal);
  ::kill(ranks[0], SIGUSR1);
  EXPECT_EQ(launcher.wait(), 6);
}

// A launcher that is a rank of another one: this program again, which finds the variable and does not come to its
// tests.
constexpr const char* inner_launcher = "MUSTER_TEST_INNER_LAUNCHER";

[[maybe_unused]] const bool is_test_program = [] {
  if (std::getenv(inner_launcher) == nullptr) return true;
  ObservedKeeper keeper;
  keeper.run({shell("(setsid sleep 1000 & echo $!); echo $PPID; echo $$; exec sleep 1000")});
  sleep_until_killed();
  return false;
}();

WorkerCommand launcher_in_a_rank(const Lines& lines) {
  WorkerCommand worker = command({"/proc/self/exe"}, lines.writer());
  worker.environment.emplace_back(inner_launcher, "1");
  return worker;
}

TEST_P(Ends, ALauncherInsideARankWithAllThatIsBelowIt) {
  ObservedKeeper keeper(GetParam());
  Lines lines;
  keeper.run({launcher_in_a_rank(lines)});
  const Watched all({keeper.wait_for_starts(1)[0], lines.next_pid(), lines.next_pid(), lines.next_pid()});
  keeper->end_all(at_once);
  keeper.wait_for<AllGone>();
  EXPECT_TRUE(all.all_ended());
}

TEST_P(Ends, ALauncherInsideARankWhenTheOuterKeeperIsKilled) {
  ObservedKeeper keeper(GetParam());
  Lines lines;
  keeper.run({launcher_in_a_rank(lines)});
  const Watched all({keeper.wait_for_starts(1)[0], lines.next_pid(), lines.next_pid(), lines.next_pid()});
  ::kill(keeper->pid(), SIGKILL);
  keeper.wait_for<KeeperLost>();
  EXPECT_TRUE(all.all_ended());
}

TEST_P(Ends, WhatAnInnerLauncherLeftWhenThatIsKilled) {
  ObservedKeeper keeper(GetParam());
  Lines lines;
  keeper.run({launcher_in_a_rank(lines)});
  const pid_t inner = keeper.wait_for_starts(1)[0];
  const Watched below({lines.next_pid(), lines.next_pid(), lines.next_pid()});
  ::kill(inner, SIGKILL);
  EXPECT_EQ(keeper.wait_for<WorkerExited>().end.signal, SIGKILL);
  EXPECT_TRUE(below.all_end());
}

}  // namespace
}  // namespace muster::launch
