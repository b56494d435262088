#include "launch/supervisor.hpp"

#include <gtest/gtest.h>
#include <signal.h>

namespace muster::launch {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Plays the keeper and the coordinator.
class Supervision : public ::testing::Test {
 protected:
  void begin(SupervisionRules rules) { supervisor = std::make_unique<Supervisor>(rules); }
  static SupervisionRules two_ranks() {
    SupervisionRules rules;
    rules.local_ranks = 2;
    return rules;
  }

  std::vector<Action> start(int round = 0) {
    auto actions = supervisor->heard(rendezvous::Start{round, round}, now);
    if (round > 0) actions = supervisor->gpus_ready(now);
    return actions;
  }
  std::vector<Action> exits(int local_rank, int code) {
    return supervisor->on_event(WorkerExited{local_rank, 100 + local_rank, {code, {}, false}, {}}, now);
  }
  std::vector<Action> killed(int local_rank, int signal, bool signalled = true) {
    return supervisor->on_event(WorkerExited{local_rank, 100 + local_rank, {{}, signal, false}, {}, signalled}, now);
  }
  std::vector<Action> all_gone(int leftovers = 0) { return supervisor->on_event(AllGone{leftovers}, now); }
  // What the end of its ranks leads to on the host that leads several, after a signal.
  std::vector<Action> interrupted_leader() {
    SupervisionRules rules = two_ranks();
    rules.several_hosts = true;
    begin(rules);
    start();
    signalled(SIGTERM);
    killed(0, SIGTERM);
    killed(1, SIGTERM);
    return all_gone();
  }
  std::vector<Action> signalled(int signal) { return supervisor->signalled(signal, wall, now); }

  std::unique_ptr<Supervisor> supervisor;
  SteadyTime now{};
  std::chrono::system_clock::time_point wall{};
};

template <class Wanted>
const Wanted* find(const std::vector<Action>& actions) {
  for (const Action& action : actions)
    if (const auto* wanted = std::get_if<Wanted>(&action)) return wanted;
  return nullptr;
}

template <class Message>
const Message* told(const std::vector<Action>& actions) {
  for (const Action& action : actions)
    if (const auto* tell = std::get_if<Tell>(&action))
      if (const auto* message = std::get_if<Message>(&tell->message)) return message;
  return nullptr;
}

TEST_F(Supervision, TellsOfSuccessWhenTheLastRankHasEndedAndNothingIsLeft) {
  begin(two_ranks());
  EXPECT_TRUE(find<StartRanks>(start()));
  EXPECT_TRUE(exits(0, 0).empty());
  EXPECT_TRUE(find<EndTheRest>(exits(1, 0)));
  EXPECT_TRUE(told<rendezvous::Succeeded>(all_gone()));
  const auto end = supervisor->heard(rendezvous::Finish{true, "", {}}, now);
  ASSERT_TRUE(find<Leave>(end));
  EXPECT_EQ(find<Leave>(end)->verdict, Verdict::succeeded);
}

TEST_F(Supervision, SaysWhatWasLeftBehind) {
  begin(two_ranks());
  start();
  exits(0, 0);
  exits(1, 0);
  const auto actions = all_gone(2);
  ASSERT_TRUE(find<Note>(actions));
  EXPECT_NE(find<Note>(actions)->text.find("2 processes"), std::string::npos);
}

TEST_F(Supervision, AFailedRankEndsItsPeersWithASignalThenAGraceThenAKill) {
  begin(two_ranks());
  start();
  const auto actions = exits(1, 3);
  ASSERT_TRUE(find<TellFailure>(actions));
  EXPECT_EQ(supervisor->exits()[find<TellFailure>(actions)->exit].local_rank, 1);
  ASSERT_TRUE(find<SignalRanks>(actions));
  EXPECT_EQ(find<SignalRanks>(actions)->signal, SIGTERM);
  EXPECT_FALSE(find<EndTheRest>(actions));
  ASSERT_TRUE(supervisor->next_deadline());
  EXPECT_EQ(*supervisor->next_deadline(), now + seconds(30));
  now += seconds(29);
  EXPECT_TRUE(supervisor->passed(now).empty());
  now += seconds(1);
  EXPECT_TRUE(find<EndTheRest>(supervisor->passed(now)));
  killed(0, SIGKILL);
  EXPECT_TRUE(told<rendezvous::Stopped>(all_gone()));
}

TEST_F(Supervision, DoesNotWaitForTheGraceWhenThePeersObey) {
  begin(two_ranks());
  start();
  exits(1, 3);
  EXPECT_TRUE(find<EndTheRest>(killed(0, SIGTERM)));
  EXPECT_TRUE(told<rendezvous::Stopped>(all_gone()));
}

TEST_F(Supervision, ThePeersEndIsNotTakenForTheCause) {
  begin(two_ranks());
  start();
  exits(1, 3);
  killed(0, SIGTERM);
  EXPECT_FALSE(supervisor->exits()[0].asked);
  EXPECT_TRUE(supervisor->exits()[1].asked);
}

TEST_F(Supervision, TheOthersHaveLessTimeAfterAFailureWhereThatIsAskedFor) {
  SupervisionRules rules = two_ranks();
  rules.grace = seconds(600);
  rules.grace_after_failure = seconds(5);
  begin(rules);
  start();
  exits(1, 3);
  EXPECT_EQ(supervisor->next_deadline(), now + seconds(5));
}

TEST_F(Supervision, ARankThatFailsDuringTheGraceShortensItForTheOthers) {
  SupervisionRules rules = two_ranks();
  rules.grace = seconds(600);
  rules.grace_after_failure = seconds(5);
  begin(rules);
  start();
  signalled(SIGUSR1);
  EXPECT_EQ(supervisor->next_deadline(), now + seconds(600));
  exits(1, 3);
  EXPECT_EQ(supervisor->next_deadline(), now + seconds(5));
}

TEST_F(Supervision, ARankThatWasDeadBeforeItWasToldToEndFailedByItself) {
  begin(two_ranks());
  start();
  signalled(SIGINT);
  killed(1, SIGKILL, false);
  killed(0, SIGINT);
  EXPECT_FALSE(supervisor->exits()[0].asked);
  EXPECT_TRUE(supervisor->exits()[1].asked);
}

// A large process takes a while to die, and its peers may be gone before it is.
TEST_F(Supervision, ARankThatWasDyingOfAKillWhenItWasToldToEndFailedByItself) {
  begin(two_ranks());
  start();
  exits(0, 1);
  killed(1, SIGKILL);
  EXPECT_FALSE(supervisor->exits()[1].asked);
}

TEST_F(Supervision, ARankThatIsKilledBecauseItDidNotEndIsNotTheCause) {
  begin(two_ranks());
  start();
  exits(0, 1);
  supervisor->passed(now + seconds(30));
  killed(1, SIGKILL);
  EXPECT_TRUE(supervisor->exits()[1].asked);
}

TEST_F(Supervision, ARankThatCannotBeStartedIsAFailure) {
  begin(two_ranks());
  start();
  const auto actions = supervisor->on_event(WorkerNotStarted{0, "No such file or directory"}, now);
  EXPECT_TRUE(find<TellFailure>(actions));
  EXPECT_TRUE(find<SignalRanks>(actions));
}

TEST_F(Supervision, IndependentRanksGoOnAndTheFailureIsToldAtTheEnd) {
  SupervisionRules rules = two_ranks();
  rules.independent = true;
  begin(rules);
  start();
  const auto actions = exits(0, 1);
  EXPECT_TRUE(find<Note>(actions));
  EXPECT_FALSE(find<SignalRanks>(actions));
  EXPECT_FALSE(find<TellFailure>(actions));
  exits(1, 0);
  EXPECT_TRUE(find<TellFailure>(all_gone()));
}

TEST_F(Supervision, ARoundBeginsAnewOnlyWhenTheGpusAreFree) {
  begin(two_ranks());
  start();
  exits(0, 1);
  killed(1, SIGTERM);
  all_gone();
  const auto actions = supervisor->heard(rendezvous::Start{1, 1}, now);
  EXPECT_TRUE(find<AwaitGpus>(actions));
  EXPECT_FALSE(find<StartRanks>(actions));
  const auto ready = supervisor->gpus_ready(now);
  ASSERT_TRUE(find<StartRanks>(ready));
  EXPECT_EQ(find<StartRanks>(ready)->round.round, 1);
  EXPECT_TRUE(supervisor->exits().empty());
}

TEST_F(Supervision, AStopFromTheCoordinatorEndsTheRanksAndIsAnswered) {
  begin(two_ranks());
  start();
  const auto actions = supervisor->heard(rendezvous::Stop{0, "node-4 joined"}, now);
  EXPECT_TRUE(find<SignalRanks>(actions));
  EXPECT_TRUE(find<Note>(actions));
  killed(0, SIGTERM);
  killed(1, SIGTERM);
  EXPECT_TRUE(told<rendezvous::Stopped>(all_gone()));
  EXPECT_TRUE(find<AwaitGpus>(supervisor->heard(rendezvous::Start{1, 0}, now)));
}

TEST_F(Supervision, AStopOfAnotherRoundIsIgnored) {
  begin(two_ranks());
  start();
  EXPECT_TRUE(supervisor->heard(rendezvous::Stop{7, "late"}, now).empty());
}

TEST_F(Supervision, AStopBeforeTheRanksStartedIsAnsweredAtOnce) {
  begin(two_ranks());
  start();
  exits(0, 1);
  killed(1, SIGTERM);
  all_gone();
  supervisor->heard(rendezvous::Start{1, 1}, now);
  EXPECT_TRUE(told<rendezvous::Stopped>(supervisor->heard(rendezvous::Stop{1, "node-2 was lost"}, now)));
  EXPECT_TRUE(supervisor->gpus_ready(now).empty());
}

TEST_F(Supervision, ASignalIsPassedOnAndEndsTheLauncherWhenNothingIsLeft) {
  begin(two_ranks());
  start();
  const auto actions = signalled(SIGINT);
  ASSERT_TRUE(find<SignalRanks>(actions));
  EXPECT_EQ(find<SignalRanks>(actions)->signal, SIGINT);
  EXPECT_TRUE(told<rendezvous::Leaving>(actions));
  exits(0, 0);
  EXPECT_TRUE(find<EndTheRest>(killed(1, SIGINT)));
  const auto end = all_gone();
  ASSERT_TRUE(find<Leave>(end));
  EXPECT_EQ(find<Leave>(end)->verdict, Verdict::interrupted);
  EXPECT_EQ(find<Leave>(end)->signal, SIGINT);
}

TEST_F(Supervision, TheSecondSignalEndsTheGrace) {
  begin(two_ranks());
  start();
  signalled(SIGINT);
  const auto actions = signalled(SIGINT);
  ASSERT_TRUE(find<EndTheRest>(actions));
  EXPECT_EQ(find<EndTheRest>(actions)->grace, milliseconds(0));
}

TEST_F(Supervision, ASignalAheadOfTheJobsEndLeavesTheTimeUntilThen) {
  SupervisionRules rules = two_ranks();
  rules.job_end = wall + seconds(120);
  begin(rules);
  start();
  signalled(SIGUSR1);
  EXPECT_EQ(*supervisor->next_deadline(), now + seconds(115));
}

TEST_F(Supervision, NoGraceIsLongerThanTheJob) {
  SupervisionRules rules = two_ranks();
  rules.job_end = wall + seconds(15);
  begin(rules);
  start();
  signalled(SIGTERM);
  EXPECT_EQ(*supervisor->next_deadline(), now + seconds(10));
}

TEST_F(Supervision, ALeaderThatIsInterruptedWaitsUntilTheOthersHaveHeard) {
  EXPECT_FALSE(find<Leave>(interrupted_leader()));
  const auto end = supervisor->heard(rendezvous::Finish{false, "the leader left", {}}, now);
  ASSERT_TRUE(find<Leave>(end));
  EXPECT_EQ(find<Leave>(end)->verdict, Verdict::interrupted);
}

TEST_F(Supervision, ALeaderDoesNotWaitForeverForHostsThatDoNotAnswer) {
  interrupted_leader();
  ASSERT_TRUE(supervisor->next_deadline());
  EXPECT_TRUE(find<Leave>(supervisor->passed(*supervisor->next_deadline())));
}

TEST_F(Supervision, ALostCoordinatorEndsTheRanksAndTheLauncher) {
  SupervisionRules rules = two_ranks();
  rules.leads = false;
  rules.several_hosts = true;
  begin(rules);
  start();
  EXPECT_TRUE(find<SignalRanks>(supervisor->link_broken("the leading host is gone", now)));
  killed(0, SIGTERM);
  killed(1, SIGTERM);
  const auto end = all_gone();
  ASSERT_TRUE(find<Leave>(end));
  EXPECT_EQ(find<Leave>(end)->verdict, Verdict::broken);
}

TEST_F(Supervision, ALostCoordinatorIsLookedForAgainWhereTheRunMayGoOn) {
  SupervisionRules rules = two_ranks();
  rules.leads = false;
  rules.may_reconnect = true;
  begin(rules);
  start();
  supervisor->link_broken("the leading host is gone", now);
  killed(0, SIGTERM);
  killed(1, SIGTERM);
  const auto actions = all_gone();
  EXPECT_TRUE(find<Reconnect>(actions));
  EXPECT_FALSE(find<Leave>(actions));
}

TEST_F(Supervision, ARefusalEndsTheLauncherWithItsReason) {
  begin(two_ranks());
  const auto end = supervisor->heard(rendezvous::Refuse{"the run is called a, not b"}, now);
  ASSERT_TRUE(find<Leave>(end));
  EXPECT_EQ(find<Leave>(end)->reason, "the run is called a, not b");
}

TEST_F(Supervision, ARefusalThatMayPassIsTriedAgainAndToldOnce) {
  begin(two_ranks());
  const auto first = supervisor->heard(rendezvous::Refuse{"the run is full", true}, now);
  EXPECT_TRUE(find<Note>(first));
  EXPECT_TRUE(find<Reconnect>(first));
  const auto second = supervisor->heard(rendezvous::Refuse{"the run is full", true}, now);
  EXPECT_FALSE(find<Note>(second));
  EXPECT_TRUE(find<Reconnect>(second));
}

TEST_F(Supervision, AHostThatWasTakenForLostEndsItsRanksAndComesBackWhereTheRunMayGoOn) {
  SupervisionRules rules = two_ranks();
  rules.leads = false;
  rules.may_reconnect = true;
  begin(rules);
  start();
  EXPECT_TRUE(find<SignalRanks>(supervisor->heard(rendezvous::Refuse{"no sign of life", true}, now)));
  killed(0, SIGTERM);
  killed(1, SIGTERM);
  EXPECT_TRUE(find<Reconnect>(all_gone()));
}

TEST_F(Supervision, AKilledKeeperEndsTheLauncher) {
  begin(two_ranks());
  start();
  const auto end = supervisor->on_event(KeeperLost{}, now);
  ASSERT_TRUE(find<Leave>(end));
  EXPECT_EQ(find<Leave>(end)->verdict, Verdict::failed);
}

TEST_F(Supervision, AFinishWhileRanksRunEndsThemFirst) {
  begin(two_ranks());
  start();
  const auto actions = supervisor->heard(rendezvous::Finish{false, "node-2 was lost", {}}, now);
  EXPECT_TRUE(find<SignalRanks>(actions));
  EXPECT_FALSE(find<Leave>(actions));
  killed(0, SIGTERM);
  killed(1, SIGTERM);
  EXPECT_TRUE(find<Leave>(all_gone()));
}

}  // namespace
}  // namespace muster::launch
