#include "job/generate/request_ledger.hpp"

#include <gtest/gtest.h>

namespace muster::job {
namespace {

OpenRequest prompt(std::int64_t index) { return {{index, "{}"}, nullptr, index + 1, 0, std::nullopt}; }

void give(RequestLedger& ledger, int replica, std::initializer_list<std::int64_t> indices) {
  for (const std::int64_t index : indices) ledger.give(replica, prompt(index));
}

// What a replica that asks gets of those that were put back.
std::optional<std::int64_t> again(RequestLedger& ledger, int replica) {
  if (!ledger.may_take(replica, std::nullopt)) return std::nullopt;
  const auto request = ledger.take_again(replica);
  return request ? std::optional(request->index) : std::nullopt;
}

TEST(ReplicaOf, IsTheRankWhereRanksHoldWholeModelsAndConsecutiveRanksWhereTheyShareOne) {
  EXPECT_EQ(replica_of(3, 1), 3);
  EXPECT_EQ(replica_of(3, 2), 1);
  EXPECT_EQ(replica_of(1, 2), 0);
}

TEST(RequestLedger, GivesWhatADeadReplicaHadToTheOthersInOrder) {
  RequestLedger ledger(3);
  give(ledger, 0, {0, 3});
  give(ledger, 1, {1, 2});
  EXPECT_EQ(ledger.lose(0).put_back, 2);
  EXPECT_EQ(ledger.lose(0).put_back, 0);
  EXPECT_EQ(again(ledger, 0), std::nullopt);
  EXPECT_EQ(again(ledger, 1), 0);
  EXPECT_EQ(again(ledger, 2), 3);
  EXPECT_EQ(again(ledger, 2), std::nullopt);
  EXPECT_EQ(ledger.living(), 2u);
  EXPECT_EQ(ledger.size(), 4u);
}

TEST(RequestLedger, TakesAnAnswerOnceWhoeverGivesIt) {
  RequestLedger ledger(2);
  give(ledger, 0, {0});
  ledger.lose(0);
  const auto answered = ledger.answered(0);  // it had said so before it died
  ASSERT_TRUE(answered);
  EXPECT_EQ(answered->line, 1);
  EXPECT_FALSE(ledger.answered(0));
  EXPECT_EQ(again(ledger, 1), std::nullopt);
  EXPECT_EQ(ledger.bytes(), 0u);
}

TEST(RequestLedger, NearTheEndNobodyGetsMoreThanItsShare) {
  RequestLedger ledger(4);
  EXPECT_TRUE(ledger.may_take(0, 6));
  give(ledger, 0, {0, 1});
  EXPECT_FALSE(ledger.may_take(0, 4));  // six for four: two each
  EXPECT_TRUE(ledger.may_take(0, 7));
  EXPECT_TRUE(ledger.may_take(0, std::nullopt));  // nobody knows how many there are
  EXPECT_TRUE(ledger.may_take(1, 4));
  ledger.lose(2);
  ledger.lose(3);
  EXPECT_TRUE(ledger.may_take(0, 4));  // six for two
  RequestLedger last(3);
  EXPECT_TRUE(last.may_take(2, 1));  // one is everybody's share
}

TEST(RequestLedger, KnowsWhetherOthersHaveSome) {
  RequestLedger ledger(2);
  EXPECT_FALSE(ledger.others_have_some(0));
  give(ledger, 0, {0});
  EXPECT_FALSE(ledger.others_have_some(0));
  EXPECT_TRUE(ledger.others_have_some(1));
  ledger.lose(0);
  EXPECT_TRUE(ledger.others_have_some(1));
}

TEST(RequestLedger, GivesWhatWasWithTwoDeadReplicasToOneThatHasNothingElse) {
  RequestLedger ledger(4);
  give(ledger, 0, {0, 1});
  ledger.lose(0);
  EXPECT_EQ(again(ledger, 1), 0);
  EXPECT_EQ(again(ledger, 1), 1);
  give(ledger, 2, {2});
  ledger.lose(1);                         // 0 and 1 are under suspicion
  EXPECT_FALSE(ledger.may_take(2, 100));  // which is to test them, once it has answered what it has
  EXPECT_TRUE(ledger.may_take(3, 100));   // the others go on
  EXPECT_FALSE(ledger.take_again(3));
  ASSERT_TRUE(ledger.answered(2));
  EXPECT_EQ(again(ledger, 2), 0);
  EXPECT_FALSE(ledger.may_take(2, 100));
  ASSERT_TRUE(ledger.answered(0));
  EXPECT_EQ(again(ledger, 2), 1);
  ASSERT_TRUE(ledger.answered(1));
  EXPECT_TRUE(ledger.may_take(2, 100));  // innocent, all of them
}

TEST(RequestLedger, NamesThePromptThatKillsAReplicaThatHadNothingElse) {
  RequestLedger ledger(4);
  give(ledger, 0, {0, 1});
  EXPECT_FALSE(ledger.lose(0).guilty);
  EXPECT_EQ(again(ledger, 1), 0);
  EXPECT_EQ(again(ledger, 1), 1);
  EXPECT_FALSE(ledger.lose(1).guilty);
  EXPECT_EQ(ledger.suspects().size(), 2u);
  EXPECT_EQ(again(ledger, 2), 0);
  const auto loss = ledger.lose(2);
  ASSERT_TRUE(loss.guilty);
  EXPECT_EQ(loss.guilty->request.index, 0);
}

}  // namespace
}  // namespace muster::job
