#include "rendezvous/key_waiters.hpp"

#include <gtest/gtest.h>

namespace muster::rendezvous {
namespace {

constexpr ConnectionId anna{1}, ben{2}, carla{3};
using Names = std::vector<ConnectionId>;

struct KeyWaitersTest : ::testing::Test {
  ByteBudget budget{10'000};
  KeyWaiters waiters{budget};
  void wait(ConnectionId who, const std::vector<std::string_view>& keys) { ASSERT_TRUE(waiters.add(who, keys)); }
};

TEST_F(KeyWaitersTest, EndsAWaitWithItsLastKey) {
  wait(anna, {"a", "b"});
  EXPECT_EQ(waiters.key_came("a"), Names{});
  EXPECT_EQ(waiters.key_came("a"), Names{});
  EXPECT_EQ(waiters.key_came("b"), Names{anna});
  EXPECT_FALSE(waiters.is_waiting(anna));
}

TEST_F(KeyWaitersTest, TakesAKeyNamedTwiceForOne) {
  wait(anna, {"a", "a"});
  EXPECT_EQ(waiters.key_came("a"), Names{anna});
}

TEST_F(KeyWaitersTest, TellsEveryoneInTheOrderTheyCame) {
  wait(carla, {"a"});
  wait(anna, {"a"});
  wait(ben, {"b"});
  EXPECT_EQ(waiters.key_came("a"), (Names{carla, anna}));
  EXPECT_TRUE(waiters.is_waiting(ben));
}

TEST_F(KeyWaitersTest, TellsOneAndLeavesTheOthersWaiting) {
  wait(anna, {"a"});
  wait(ben, {"a"});
  EXPECT_EQ(waiters.key_came_for_one("a"), anna);
  EXPECT_EQ(waiters.key_came_for_one("a"), ben);
  EXPECT_EQ(waiters.key_came_for_one("a"), std::nullopt);
}

TEST_F(KeyWaitersTest, GoesOnToOneWhoseWaitIsOverByIt) {
  wait(anna, {"a", "b"});
  wait(ben, {"a"});
  EXPECT_EQ(waiters.key_came_for_one("a"), ben);
  EXPECT_EQ(waiters.key_came("b"), Names{anna});
}

TEST_F(KeyWaitersTest, ForgetsOneThatIsRemoved) {
  wait(anna, {"a", "b"});
  wait(ben, {"a"});
  EXPECT_EQ(waiters.key_came("b"), Names{});
  waiters.remove(anna);
  EXPECT_EQ(waiters.key_came("a"), Names{ben});
  EXPECT_EQ(waiters.key_came("b"), Names{});
  waiters.remove(anna);
}

TEST_F(KeyWaitersTest, HoldsNothingOfTheBudgetOnceNobodyWaits) {
  wait(anna, {"a", "b"});
  wait(ben, {"a"});
  wait(carla, {"c"});
  EXPECT_GT(budget.used(), 0U);
  waiters.key_came("a");
  waiters.remove(anna);
  waiters.clear();
  EXPECT_EQ(budget.used(), 0U);
  EXPECT_EQ(waiters.key_came("c"), Names{});
}

TEST_F(KeyWaitersTest, RefusesAWaitBeyondTheBudget) {
  const std::string long_key(20'000, 'k');
  const std::string_view key = long_key;
  EXPECT_FALSE(waiters.add(anna, {&key, 1}));
  EXPECT_FALSE(waiters.is_waiting(anna));
  EXPECT_EQ(budget.used(), 0U);
}

}  // namespace
}  // namespace muster::rendezvous
