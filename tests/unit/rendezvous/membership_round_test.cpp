#include "membership_fixture.hpp"
#include "testing/contains.hpp"

namespace muster::rendezvous {
namespace {

using testing::contains;
using namespace std::chrono_literals;

class MembershipRound : public MembershipTest {
 protected:
  Finish end_of(int agent) {
    const auto finish = last_said_to<Finish>(agent);
    EXPECT_TRUE(finish) << "agent " << agent << " was not told the end";
    return finish.value_or(Finish{});
  }
};

// ---- gathering ----

TEST_F(MembershipRound, BeginsAtOnceWhenAllPlacesAreTaken) {
  begin(rules(2, 3));
  join_all(3);
  EXPECT_EQ(state(), RunState::running);
  EXPECT_EQ(round(), 0);
  for (int agent = 0; agent < 3; ++agent) EXPECT_TRUE(last_said_to<Start>(agent));
}

TEST_F(MembershipRound, BeginsAfterTheLastCallWhichNewcomersDoNotProlong) {
  begin(rules(2, 4));
  join_all(2);
  wait(20s);
  join(2);
  wait(9s);
  EXPECT_EQ(state(), RunState::gathering);
  wait(1s);
  EXPECT_EQ(state(), RunState::running);
  EXPECT_EQ(last_said_to<Start>(2)->group_world_size, 3);
}

TEST_F(MembershipRound, ForgetsTheLastCallWhenTooFewAreLeft) {
  begin(rules(2, 4));
  join_all(2);
  wait(20s);
  lose(1);
  wait(20s);
  EXPECT_EQ(state(), RunState::gathering);
  join(2);
  wait(29s);
  EXPECT_EQ(state(), RunState::gathering);
  wait(1s);
  EXPECT_EQ(state(), RunState::running);
}

TEST_F(MembershipRound, FailsWhenTooFewHostsComeInTime) {
  begin(rules(3, 3));
  join(0, 0);
  wait(599s);
  EXPECT_EQ(state(), RunState::gathering);
  wait(1s);
  EXPECT_EQ(state(), RunState::finished);
  const Finish finish = end_of(0);
  EXPECT_FALSE(finish.success);
  EXPECT_TRUE(contains(finish.reason, "10 min", "1 of 3", "node-0 (node rank 0)", "node ranks 1 and 2"));
}

// ---- ranks ----

TEST_F(MembershipRound, GivesEachNodeRankItsPlace) {
  begin(rules(3, 3));
  join(0, 2);
  join(1, 0);
  join(2, 1);
  EXPECT_EQ(last_said_to<Start>(0)->group_rank, 2);
  EXPECT_EQ(last_said_to<Start>(1)->group_rank, 0);
  EXPECT_EQ(last_said_to<Start>(2)->group_rank, 1);
}

TEST_F(MembershipRound, CountsRanksAlongTheHostsAndWithinEachRole) {
  begin(rules(3, 3));
  Join host = join_of(0);
  host.role = "actor";
  host.local_world_size = 3;
  say(0, host);
  host = join_of(1);
  host.role = "learner";
  host.local_world_size = 1;
  say(1, host);
  host = join_of(2);
  host.role = "actor";
  host.local_world_size = 2;
  say(2, host);
  const Start first = last_said_to<Start>(0).value();
  const Start second = last_said_to<Start>(1).value();
  const Start third = last_said_to<Start>(2).value();
  EXPECT_EQ(first.first_rank, 0);
  EXPECT_EQ(second.first_rank, 3);
  EXPECT_EQ(third.first_rank, 4);
  EXPECT_EQ(first.world_size, 6);
  EXPECT_EQ(third.first_role_rank, 3);
  EXPECT_EQ(third.role_world_size, 5);
  EXPECT_EQ(second.first_role_rank, 0);
  EXPECT_EQ(second.role_world_size, 1);
}

TEST_F(MembershipRound, PutsTheLeaderFirstAndKeepsTheOrderOfTheLastRound) {
  begin(rules(2, 4));
  join_all(2);
  Join leader = join_of(2);
  leader.leads = true;
  say(2, leader);
  wait(30s);
  EXPECT_EQ(last_said_to<Start>(2)->group_rank, 0);
  EXPECT_EQ(last_said_to<Start>(0)->group_rank, 1);
  EXPECT_EQ(last_said_to<Start>(1)->group_rank, 2);
  lose(0);
  say(1, Stopped{0});
  say(2, Stopped{0});
  join(3);
  join(4);
  EXPECT_EQ(last_said_to<Start>(2)->group_rank, 0);
  EXPECT_EQ(last_said_to<Start>(1)->group_rank, 1);
  EXPECT_EQ(last_said_to<Start>(3)->group_rank, 2);
  EXPECT_EQ(last_said_to<Start>(4)->group_rank, 3);
}

// ---- success ----

TEST_F(MembershipRound, SucceedsWhenAllHaveSucceeded) {
  begin(rules(2, 2));
  join_all(2);
  say(0, Succeeded{0});
  EXPECT_EQ(state(), RunState::running);
  say(1, Succeeded{0});
  EXPECT_EQ(state(), RunState::finished);
  EXPECT_TRUE(end_of(0).success);
  EXPECT_TRUE(end_of(1).success);
}

TEST_F(MembershipRound, SucceedsWithoutAHostThatWasLostAfterItsSuccess) {
  begin(rules(2, 2));
  join_all(2);
  say(0, Succeeded{0});
  lose(0);
  EXPECT_EQ(state(), RunState::running);
  say(1, Succeeded{0});
  EXPECT_TRUE(end_of(1).success);
}

TEST_F(MembershipRound, TellsTheLeaderTheEndWhenTheOthersAreGone) {
  begin(rules(3, 3));
  Join leader = join_of(0);
  leader.leads = true;
  say(0, leader);
  join(1);
  join(2);
  for (int agent = 0; agent < 3; ++agent) say(agent, Succeeded{0});
  EXPECT_TRUE(end_of(1).success);
  EXPECT_TRUE(end_of(2).success);
  EXPECT_FALSE(last_said_to<Finish>(0));
  lose(1);
  EXPECT_FALSE(last_said_to<Finish>(0));
  lose(2);
  EXPECT_TRUE(end_of(0).success);
}

TEST_F(MembershipRound, TellsTheLeaderTheEndEvenIfAnotherStays) {
  begin(rules(2, 2));
  Join leader = join_of(0);
  leader.leads = true;
  say(0, leader);
  join(1);
  say(0, Succeeded{0});
  say(1, Succeeded{0});
  wait(5s);
  EXPECT_TRUE(end_of(0).success);
}

// ---- failure ----

TEST_F(MembershipRound, StopsTheOthersAndFailsWithTheCauseWhenNoRestartIsLeft) {
  begin(rules(3, 3));
  join_all(3);
  forget_what_was_said();
  fail(1, 0ms, 3);
  EXPECT_EQ(state(), RunState::stopping);
  EXPECT_TRUE(said_to(1).empty());
  for (const int agent : {0, 2}) {
    const auto stop = last_said_to<Stop>(agent);
    ASSERT_TRUE(stop);
    EXPECT_EQ(stop->round, 0);
    EXPECT_EQ(stop->reason, "rank 3 on node-1 failed");
  }
  say(0, Stopped{0});
  say(1, Stopped{0});
  EXPECT_EQ(state(), RunState::stopping);
  say(2, Stopped{0});
  const Finish finish = end_of(2);
  EXPECT_FALSE(finish.success);
  EXPECT_TRUE(contains(finish.reason, "rank 3 on node-1 failed"));
  EXPECT_EQ(finish.failure, "{\"rank\":3}");
}

TEST_F(MembershipRound, RestartsAtOnceWithoutAnotherJoin) {
  begin(rules(2, 4, 1));
  join_all(2);
  wait(30s);
  fail(0);
  say(0, Stopped{0});
  say(1, Stopped{0});
  const auto start = last_said_to<Start>(1);
  ASSERT_TRUE(start);
  EXPECT_EQ(start->round, 1);
  EXPECT_EQ(start->restart_count, 1);
  EXPECT_TRUE(last_said_to<Start>(0));
}

TEST_F(MembershipRound, FailsWhenAllRestartsAreUsed) {
  begin(rules(1, 1, 2));
  join(0);
  for (int attempt = 0; attempt < 3; ++attempt) {
    EXPECT_EQ(last_said_to<Start>(0)->restart_count, attempt);
    fail(0);
    say(0, Stopped{attempt});
  }
  EXPECT_TRUE(contains(end_of(0).reason, "rank 0 on node-0 failed", "no restart of 2 is left"));
}

TEST_F(MembershipRound, NamesTheEarliestFailureEvenIfItIsToldLast) {
  begin(rules(3, 3));
  join_all(3);
  fail(2, 10ms, 5);
  wait(1s);
  fail(1, 1500ms, 3);
  fail(0, 200ms, 1);
  for (int agent = 0; agent < 3; ++agent) say(agent, Stopped{0});
  EXPECT_EQ(end_of(0).failure, "{\"rank\":3}");
}

TEST_F(MembershipRound, CountsFailuresOfOneRoundAsOneRestart) {
  begin(rules(2, 2, 5));
  join_all(2);
  fail(0);
  fail(1);
  say(0, Stopped{0});
  say(1, Stopped{0});
  EXPECT_EQ(last_said_to<Start>(0)->restart_count, 1);
}

TEST_F(MembershipRound, IgnoresWhatIsSaidAboutAnOldRound) {
  begin(rules(2, 2, 1));
  join_all(2);
  fail(0);
  say(0, Stopped{0});
  say(1, Stopped{0});
  ASSERT_EQ(round(), 1);
  forget_what_was_said();
  say(1, Failed{0, 0ms, "{}"});
  say(1, Stopped{0});
  say(0, Succeeded{0});
  say(1, Succeeded{0});
  EXPECT_EQ(state(), RunState::running);
  EXPECT_TRUE(said_to(0).empty());
  EXPECT_TRUE(said_to(1).empty());
}

TEST_F(MembershipRound, RepeatsTheWholeRoundAfterASuccessAndAFailure) {
  begin(rules(2, 2, 1));
  join_all(2);
  say(0, Succeeded{0});
  fail(1);
  EXPECT_TRUE(last_said_to<Stop>(0));
  say(1, Stopped{0});
  EXPECT_EQ(last_said_to<Start>(0)->round, 1);
  EXPECT_EQ(last_said_to<Start>(1)->round, 1);
  say(0, Stopped{0});
  EXPECT_EQ(state(), RunState::running);
}

TEST_F(MembershipRound, TakesASuccessThatCrossedTheStopForStopped) {
  begin(rules(2, 2, 1));
  join_all(2);
  fail(1);
  say(0, Succeeded{0});
  say(1, Stopped{0});
  EXPECT_EQ(round(), 1);
}

TEST_F(MembershipRound, TakesAnUnaskedStopForAFailure) {
  begin(rules(2, 2));
  join_all(2);
  say(0, Stopped{0});
  EXPECT_TRUE(contains(last_said_to<Stop>(1)->reason, "a rank on node-0 failed"));
  say(1, Stopped{0});
  EXPECT_FALSE(end_of(0).success);
}

// ---- hosts that come and go ----

TEST_F(MembershipRound, GathersAgainWithoutCountingARestartWhenAHostIsLost) {
  begin(rules(1, 2, 3));
  join_all(2);
  lose(1);
  EXPECT_TRUE(contains(last_said_to<Stop>(0)->reason, "node-1 was lost", "connection ended"));
  say(0, Stopped{0});
  EXPECT_EQ(state(), RunState::gathering);
  wait(30s);
  const auto start = last_said_to<Start>(0);
  ASSERT_TRUE(start);
  EXPECT_EQ(start->round, 1);
  EXPECT_EQ(start->restart_count, 0);
  EXPECT_EQ(start->group_world_size, 1);
}

TEST_F(MembershipRound, CountsTheLastCallFromTheLossAndNotFromTheEndOfTheStop) {
  begin(rules(1, 2));
  join_all(2);
  lose(1);
  wait(30s);
  say(0, Stopped{0});
  EXPECT_EQ(state(), RunState::running);
}

TEST_F(MembershipRound, EndsAtOnceWhenAHostOfAFixedRunWithoutRestartsIsLost) {
  begin(rules(3, 3));
  join_all_with_node_ranks(3);
  wait(5s, {2});
  EXPECT_EQ(state(), RunState::stopping);
  say(0, Stopped{0});
  say(1, Stopped{0});
  EXPECT_EQ(end_of(0).reason, "node-2 (node rank 2) was lost: no sign of life for 5 s");
}

TEST_F(MembershipRound, WaitsForAReplacementWhenRestartsAreAllowed) {
  begin(rules(2, 2, 1));
  join_all_with_node_ranks(2);
  lose(1);
  say(0, Stopped{0});
  wait(100s);
  EXPECT_EQ(state(), RunState::gathering);
  join(2, 1);
  EXPECT_EQ(last_said_to<Start>(2)->group_rank, 1);
  EXPECT_EQ(last_said_to<Start>(0)->restart_count, 0);
}

TEST_F(MembershipRound, NamesTheLostHostWhenNobodyTakesItsPlace) {
  begin(rules(2, 2, 1));
  join_all_with_node_ranks(2);
  lose(1);
  say(0, Stopped{0});
  wait(600s);
  EXPECT_TRUE(contains(end_of(0).reason, "node-1 (node rank 1) was lost", "missing: node rank 1"));
}

TEST_F(MembershipRound, TellsASilentHostThatItIsLost) {
  begin(rules(1, 2));
  join_all(2);
  wait(5s, {1});
  const auto refuse = last_said_to<Refuse>(1);
  ASSERT_TRUE(refuse);
  EXPECT_TRUE(refuse->retry);
  EXPECT_TRUE(contains(refuse->reason, "node-1", "5 s"));
}

TEST_F(MembershipRound, CountsNobodyAsSilentAfterItsOwnPause) {
  begin(rules(2, 2));
  join_all(2);
  now_ += 60s;
  wait(0s, {0, 1});
  EXPECT_EQ(state(), RunState::running);
  wait(4s, {0, 1});
  EXPECT_EQ(state(), RunState::running);
  wait(1s, {0, 1});
  EXPECT_EQ(state(), RunState::finished);
}

TEST_F(MembershipRound, DoesNotWaitForAHostThatIsLostWhileStopping) {
  begin(rules(2, 3, 1));
  join_all(3);
  fail(0);
  say(0, Stopped{0});
  say(1, Stopped{0});
  lose(2);
  wait(30s);
  EXPECT_EQ(state(), RunState::running);
  EXPECT_EQ(last_said_to<Start>(0)->restart_count, 1);
}

TEST_F(MembershipRound, WaitsForAHostThatTakesLongToStopButIsAlive) {
  begin(rules(2, 2, 1));
  join_all(2);
  fail(0);
  say(0, Stopped{0});
  wait(std::chrono::minutes(20));
  EXPECT_EQ(state(), RunState::stopping);
  wait(5s, {1});
  EXPECT_EQ(state(), RunState::gathering);
}

TEST_F(MembershipRound, NamesALossBesideTheFailureThatItCaused) {
  begin(rules(2, 2));
  join_all(2);
  fail(0, 0ms, 1);
  lose(1);
  say(0, Stopped{0});
  EXPECT_TRUE(contains(end_of(0).reason, "rank 1 on node-0 failed", "node-1 was lost"));
}

TEST_F(MembershipRound, TakesANewcomerInWithoutCountingARestart) {
  begin(rules(1, 2));
  join(0);
  wait(30s);
  forget_what_was_said();
  join(1);
  EXPECT_EQ(last_said_to<Stop>(0)->reason, "node-1 joined");
  say(0, Stopped{0});
  const auto start = last_said_to<Start>(1);
  ASSERT_TRUE(start);
  EXPECT_EQ(start->group_world_size, 2);
  EXPECT_EQ(start->restart_count, 0);
}

TEST_F(MembershipRound, DoesNotThrowASuccessAwayForANewcomer) {
  begin(rules(2, 3));
  join_all(2);
  wait(30s);
  say(0, Succeeded{0});
  forget_what_was_said();
  join(2);
  EXPECT_TRUE(said_to(1).empty());
  say(1, Succeeded{0});
  EXPECT_TRUE(end_of(2).success);
}

TEST_F(MembershipRound, LetsALeavingHostStopItsRanksFirst) {
  begin(rules(1, 2));
  join_all(2);
  say(1, Leaving{"SIGTERM"});
  EXPECT_TRUE(contains(last_said_to<Stop>(0)->reason, "node-1 leaves: SIGTERM"));
  say(0, Stopped{0});
  wait(60s);
  EXPECT_EQ(state(), RunState::stopping);
  say(1, Stopped{0});
  EXPECT_EQ(last_said_to<Start>(0)->group_world_size, 1);
}

TEST_F(MembershipRound, ForgetsAHostThatLeavesWhileItWaits) {
  begin(rules(2, 2));
  join(0);
  say(0, Leaving{"SIGTERM"});
  join(1);
  EXPECT_EQ(membership_->describe(), "1 of 2 hosts is here: node-1; missing: 1 more host");
}

TEST_F(MembershipRound, EndsForAllWhenTheLeaderLeaves) {
  begin(rules(1, 2, 5));
  Join leader = join_of(0);
  leader.leads = true;
  say(0, leader);
  join(1);
  say(0, Leaving{"SIGINT"});
  EXPECT_TRUE(last_said_to<Stop>(1));
  say(1, Stopped{0});
  say(0, Stopped{0});
  EXPECT_TRUE(contains(end_of(1).reason, "node-0 leaves: SIGINT"));
  lose(1);
  EXPECT_FALSE(end_of(0).success);
}

TEST_F(MembershipRound, EndsForAllWhenTheLeaderLeavesBeforeTheFirstRound) {
  begin(rules(3, 3));
  Join leader = join_of(0);
  leader.leads = true;
  say(0, leader);
  join(1);
  say(0, Leaving{"SIGINT"});
  EXPECT_FALSE(end_of(1).success);
}

// ---- the next run ----

TEST_F(MembershipRound, DoesNotTellTheNextRunsAgentsHowThisOneEnded) {
  begin(rules(2, 2));
  join_all(2);
  say(0, Succeeded{0});
  say(1, Succeeded{0});
  EXPECT_TRUE(end_of(1).success);
  Join next = join_of(1);
  next.pid = 4711;
  say(7, next);
  const auto refusal = last_said_to<Refuse>(7);
  ASSERT_TRUE(refusal);
  EXPECT_TRUE(refusal->retry);
  say(8, join_of(1));  // the same agent, which lost its connection
  EXPECT_TRUE(last_said_to<Finish>(8));
}

// ---- independent ranks ----

TEST_F(MembershipRound, GoesOnAfterAFailureOfIndependentRanks) {
  auto wanted = rules(3, 3);
  wanted.independent = true;
  begin(wanted);
  join_all(3);
  forget_what_was_said();
  fail(0, 0ms, 1);
  EXPECT_TRUE(said_to(1).empty());
  lose(1);
  EXPECT_EQ(state(), RunState::running);
  say(2, Succeeded{0});
  const Finish finish = end_of(2);
  EXPECT_FALSE(finish.success);
  EXPECT_TRUE(contains(finish.reason, "rank 1 on node-0 failed", "2 hosts"));
  EXPECT_EQ(finish.failure, "{\"rank\":1}");
}

TEST_F(MembershipRound, CountsAnIndependentHostThatLeavesAndIsLostOnce) {
  auto wanted = rules(2, 2);
  wanted.independent = true;
  begin(wanted);
  join_all(2);
  say(0, Leaving{"SIGTERM"});
  lose(0);
  say(1, Succeeded{0});
  const Finish finish = end_of(1);
  EXPECT_FALSE(finish.success);
  EXPECT_EQ(finish.reason, "node-0 leaves: SIGTERM");
}

TEST_F(MembershipRound, SucceedsWhenNoIndependentRankFailed) {
  auto wanted = rules(2, 2);
  wanted.independent = true;
  begin(wanted);
  join_all(2);
  say(0, Succeeded{0});
  say(1, Succeeded{0});
  EXPECT_TRUE(end_of(0).success);
}

TEST_F(MembershipRound, RefusesANewcomerOnceIndependentRanksRun) {
  auto wanted = rules(1, 3);
  wanted.independent = true;
  begin(wanted);
  join(0);
  wait(30s);
  join(1);
  EXPECT_TRUE(contains(refusal_of(1), "node-1", "too late"));
}

// ---- heartbeats ----

TEST_F(MembershipRound, SendsEveryHostASignOfLifeInEachInterval) {
  begin(rules(2, 2));
  join_all(2);
  heartbeats_ = 0;
  wait(10s);
  EXPECT_EQ(heartbeats_, 20);
}

TEST_F(MembershipRound, WantsToBeWokenBeforeAHostCountsAsSilent) {
  begin(rules(2, 2));
  const auto before = membership_->next_deadline();
  ASSERT_TRUE(before);
  EXPECT_EQ(*before, now_ + 600s);
  join(0);
  EXPECT_LE(membership_->next_deadline().value(), now_ + 1s);
}

}  // namespace
}  // namespace muster::rendezvous
