#include "communicate/roll_call.hpp"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "worlds.hpp"

namespace muster::communicate {
namespace {

using namespace std::chrono_literals;

// Ranks 0, 1 and 2, joined, in one process.
class RollCalls : public ::testing::Test {
 protected:
  static constexpr std::chrono::milliseconds timeout = 3200ms;

  void SetUp() override {
    store_.serve();
    std::vector<std::future<Result<std::unique_ptr<RollCall>>>> joining;
    for (int rank = 0; rank < 3; ++rank)
      joining.push_back(std::async(std::launch::async, [this, rank] {
        return RollCall::join(Place{rank, 3, rank, "127.0.0.1", store_.port()}, timeout, {});
      }));
    for (auto& rank : joining) {
      auto joined = rank.get();
      ASSERT_TRUE(joined) << joined.error().what;
      ranks_.push_back(std::move(*joined));
    }
    for (const auto& rank : ranks_) rank->enter("the first");
  }

  // What rank 1, which has come the furthest, says after having waited in vain.
  RollCallAnswer called_by_rank_1(const std::string& description) {
    const auto number = ranks_[1]->enter(description);
    std::this_thread::sleep_for(timeout);
    return ranks_[1]->call(number, 0ms);
  }

  StoreServer store_;
  std::vector<std::unique_ptr<RollCall>> ranks_;
};

TEST_F(RollCalls, NobodyIsMissingWhereAllHaveCome) {
  for (const int rank : {0, 2}) ranks_[static_cast<std::size_t>(rank)]->enter("the second");
  const RollCallAnswer answer = called_by_rank_1("the second");
  EXPECT_EQ(answer.missing, std::vector<int>{});
  EXPECT_EQ(answer.silent, std::vector<int>{});
  EXPECT_EQ(answer.mismatch, "");
}

TEST_F(RollCalls, WhoCameAndThenShowsNoLifeIsTold) {
  for (const int rank : {0, 2}) ranks_[static_cast<std::size_t>(rank)]->enter("the second");
  std::this_thread::sleep_for(2 * ranks_[2]->interval());
  ranks_[2]->stop();  // as a process that was stopped
  const RollCallAnswer answer = called_by_rank_1("the second");
  EXPECT_EQ(answer.missing, std::vector<int>{});
  EXPECT_EQ(answer.silent, std::vector<int>{2});
}

TEST_F(RollCalls, WhoIsBehindAndComputesIsMissingAndNotWhoIsBehindBecauseItWaits) {
  for (const auto& rank : ranks_) rank->enter("the second");  // which rank 0 does not get out of
  ranks_[2]->leave();
  EXPECT_EQ(called_by_rank_1("the third").missing, std::vector<int>{2});
}

TEST_F(RollCalls, WhoIsBehindAndShowsNoLifeIsMissingAndNotWhoIsBehindBecauseItWaits) {
  for (const auto& rank : ranks_) rank->enter("the second");
  std::this_thread::sleep_for(2 * ranks_[2]->interval());
  ranks_[2]->stop();  // as a process that was stopped
  EXPECT_EQ(called_by_rank_1("the third").missing, std::vector<int>{2});
}

TEST_F(RollCalls, AllThatAreBehindAreNamedWhereAllOfThemWait) {
  for (const auto& rank : ranks_) rank->enter("the second");
  EXPECT_EQ(called_by_rank_1("the third").missing, (std::vector<int>{0, 2}));
}

TEST_F(RollCalls, WhoCameWithSomethingElseIsTold) {
  ranks_[0]->enter("the second");
  ranks_[2]->enter("something else");
  const RollCallAnswer answer = called_by_rank_1("the second");
  EXPECT_EQ(answer.missing, std::vector<int>{});
  EXPECT_NE(answer.mismatch.find("rank 2 in something else"), std::string::npos) << answer.mismatch;
}

}  // namespace
}  // namespace muster::communicate
