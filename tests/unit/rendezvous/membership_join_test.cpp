#include "membership_fixture.hpp"
#include "testing/contains.hpp"

namespace muster::rendezvous {
namespace {

using testing::contains;
using namespace std::chrono_literals;

class MembershipJoin : public MembershipTest {};

TEST_F(MembershipJoin, WelcomesAHostWithTheTermsOfTheRun) {
  auto wanted = rules(2, 2);
  wanted.alive_interval = 250ms;
  wanted.silence = 2s;
  begin(wanted);
  join(0);
  const auto welcome = last_said_to<Welcome>(0);
  ASSERT_TRUE(welcome);
  EXPECT_EQ(welcome->alive_interval, 250ms);
  EXPECT_EQ(welcome->silence, 2s);
  EXPECT_EQ(state(), RunState::gathering);
}

TEST_F(MembershipJoin, RefusesAnotherProtocol) {
  begin(rules(2, 2));
  Join stranger = join_of(0);
  stranger.protocol = 7;
  say(0, stranger);
  EXPECT_TRUE(contains(refusal_of(0), "version 7", "version 2"));
}

TEST_F(MembershipJoin, RefusesAnotherRun) {
  begin(rules(2, 2));
  Join stranger = join_of(0);
  stranger.run_id = "walk";
  say(0, stranger);
  EXPECT_TRUE(contains(refusal_of(0), "node-0", "\"walk\"", "--rdzv-id"));
}

TEST_F(MembershipJoin, RefusesANodeRankOutsideTheRun) {
  begin(rules(4, 4));
  join(0, 4);
  EXPECT_TRUE(contains(refusal_of(0), "node rank 4 of node-0", "0 to 3"));
  join(1, -1);
  EXPECT_TRUE(contains(refusal_of(1), "node rank -1 of node-1", "0 to 3"));
}

TEST_F(MembershipJoin, RefusesAHostWithoutRanks) {
  begin(rules(2, 2));
  Join empty = join_of(0);
  empty.local_world_size = 0;
  say(0, empty);
  EXPECT_TRUE(contains(refusal_of(0), "node-0", "0 ranks"));
  empty.local_world_size = 1'000'000;
  say(1, empty);
  EXPECT_TRUE(contains(refusal_of(1), "1000000 ranks"));
}

TEST_F(MembershipJoin, RefusesANodeRankThatALiveHostHas) {
  begin(rules(2, 2));
  join(0, 1);
  join(5, 1);
  const auto refuse = last_said_to<Refuse>(5);
  ASSERT_TRUE(refuse);
  EXPECT_TRUE(contains(refuse->reason, "node rank 1", "node-5 (pid 1005)", "node-0 (pid 1000)"));
  EXPECT_FALSE(refuse->retry);
}

TEST_F(MembershipJoin, LetsAHostTryAgainWhoseNodeRankIsHeldByAQuietOne) {
  begin(rules(2, 2));
  join(0, 1);
  wait(4s, {0});
  join(5, 1);
  const auto refuse = last_said_to<Refuse>(5);
  ASSERT_TRUE(refuse);
  EXPECT_TRUE(refuse->retry);
  wait(1s, {0});
  join(6, 1);
  EXPECT_TRUE(last_said_to<Welcome>(6));
}

TEST_F(MembershipJoin, RefusesAMixOfHostsWithAndWithoutNodeRanks) {
  begin(rules(3, 3));
  join(0, 0);
  join(1);
  EXPECT_TRUE(contains(refusal_of(1), "node-1 has no node rank", "node-0 (node rank 0)"));
  lose(0);
  join(2);
  EXPECT_TRUE(last_said_to<Welcome>(2));
  join(3, 1);
  EXPECT_TRUE(contains(refusal_of(3), "node-3 (node rank 1) has a node rank", "node-2"));
}

TEST_F(MembershipJoin, RefusesASecondLeader) {
  begin(rules(3, 3));
  Join leader = join_of(0);
  leader.leads = true;
  say(0, leader);
  leader.host = "node-1";
  say(1, leader);
  EXPECT_TRUE(contains(refusal_of(1), "node-1", "node-0"));
}

TEST_F(MembershipJoin, RefusesOneTooManyUntilAPlaceIsFree) {
  begin(rules(1, 2, 1));
  join_all(2);
  join(2);
  const auto refuse = last_said_to<Refuse>(2);
  ASSERT_TRUE(refuse);
  EXPECT_TRUE(contains(refuse->reason, "node-2", "all 2 hosts"));
  EXPECT_TRUE(refuse->retry);
  lose(1);
  join(3);
  EXPECT_TRUE(last_said_to<Welcome>(3));
}

TEST_F(MembershipJoin, PrefersAnAgentThatWasStartedAnewOnItsHost) {
  begin(rules(2, 2, 1));
  join_all_with_node_ranks(2);
  forget_what_was_said();
  Join again = join_of(1, 1);
  again.pid = 7777;
  say(5, again);
  EXPECT_TRUE(contains(refusal_of(1), "node-1 (node rank 1)", "pid 7777", "pid 1001"));
  EXPECT_TRUE(last_said_to<Stop>(0));
  EXPECT_TRUE(last_said_to<Welcome>(5));
  say(0, Stopped{0});
  EXPECT_EQ(last_said_to<Start>(0)->group_rank, 0);
  EXPECT_EQ(last_said_to<Start>(5)->group_rank, 1);
}

TEST_F(MembershipJoin, NeverTakesTheLeadersPlace) {
  begin(rules(2, 2, 1));
  Join leader = join_of(0, 0);
  leader.leads = true;
  say(0, leader);
  Join impostor = join_of(0, 0);
  impostor.pid = 7777;
  say(1, impostor);
  EXPECT_TRUE(contains(refusal_of(1), "taken by node-0 (pid 1000)"));
}

TEST_F(MembershipJoin, DropsAHostThatJoinsTwice) {
  begin(rules(2, 2));
  join(0);
  join(0);
  EXPECT_TRUE(contains(refusal_of(0), "twice"));
  EXPECT_TRUE(contains(membership_->describe(), "0 of 2 hosts"));
}

TEST_F(MembershipJoin, HearsNothingFromAStranger) {
  begin(rules(1, 2));
  say(0, Succeeded{0});
  say(0, Leaving{"SIGTERM"});
  EXPECT_TRUE(said_to(0).empty());
  EXPECT_EQ(state(), RunState::gathering);
}

TEST_F(MembershipJoin, SaysWhoIsHereAndWhoIsMissing) {
  begin(rules(4, 4));
  EXPECT_EQ(membership_->describe(), "0 of 4 hosts are here; missing: 4 more hosts");
  join(7, 1);
  join(5, 0);
  EXPECT_EQ(membership_->describe(),
            "2 of 4 hosts are here: node-5 (node rank 0) and node-7 (node rank 1); missing: node ranks 2 and 3");
  join(6, 3);
  EXPECT_TRUE(contains(membership_->describe(), "missing: node rank 2"));
}

TEST_F(MembershipJoin, SaysHowManyHostsWithoutNodeRanksAreMissing) {
  begin(rules(3, 5));
  join_all(2);
  EXPECT_EQ(membership_->describe(), "2 of 3 to 5 hosts are here: node-0 and node-1; missing: 1 more host");
  join(2);
  EXPECT_EQ(membership_->describe(), "3 of 3 to 5 hosts are here: node-0, node-1 and node-2");
}

TEST_F(MembershipJoin, KeepsLongListsShort) {
  begin(rules(4000, 4000));
  for (int agent = 0; agent < 3000; ++agent) join(agent, agent);
  const std::string text = membership_->describe();
  EXPECT_TRUE(contains(text, "3000 of 4000 hosts", "and 2984 more", "missing: node ranks 3000 to 3999"));
  EXPECT_LT(text.size(), 1000u);
}

TEST_F(MembershipJoin, ThrowsForRulesThatNoRunCanFollow) {
  EXPECT_THROW(Membership::make(rules(3, 2), now_), std::invalid_argument);
  EXPECT_THROW(Membership::make(rules(0, 2), now_), std::invalid_argument);
  auto hasty = rules(1, 1);
  hasty.silence = hasty.alive_interval;
  EXPECT_THROW(Membership::make(hasty, now_), std::invalid_argument);
}

}  // namespace
}  // namespace muster::rendezvous
