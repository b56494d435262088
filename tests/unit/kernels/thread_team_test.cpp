#include "kernels/thread_team.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <vector>

namespace muster::kernels {
namespace {

TEST(ThreadTeam, GivesOutEveryPieceOnce) {
  for (const int threads : {1, 2, 5}) {
    ThreadTeam team(threads);
    EXPECT_EQ(team.size(), threads);
    for (const std::int64_t count : {0, 1, 2, 7, 64, 1000}) {
      for (const std::int64_t grain : {0, 1, 3, 1000}) {
        std::vector<std::atomic<int>> visits(static_cast<std::size_t>(count));
        team.split(count, grain, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
        });
        for (const auto& visit : visits) ASSERT_EQ(visit.load(), 1);
      }
    }
  }
}

TEST(ThreadTeam, ReturnsWhenEverythingIsDoneAndWorksAgainAfterSleeping) {
  ThreadTeam team(3);
  std::int64_t expected = 0;
  std::atomic<std::int64_t> sum{0};
  for (int round = 0; round < 3000; ++round) {
    if (round % 1000 == 999) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    team.split(6, 1, [&](std::int64_t begin, std::int64_t) { sum += begin + round; });
    expected += 15 + 6 * round;
    ASSERT_EQ(sum.load(), expected);
  }
}

TEST(ThreadTeam, ThreadsShareTheWork) {
  ThreadTeam team(2);
  // Each piece waits for the other: one thread alone would never end.
  std::atomic<int> inside{0};
  team.split(2, 1, [&](std::int64_t, std::int64_t) {
    ++inside;
    while (inside.load() < 2) std::this_thread::yield();
  });
  EXPECT_EQ(inside.load(), 2);
}

TEST(ThreadTeam, RefusesTeamsThatCannotBe) {
  EXPECT_THROW(ThreadTeam(0), std::invalid_argument);
  for (const VectorSet set : {VectorSet::avx2, VectorSet::avx512}) {
    if (is_available(set)) continue;
    EXPECT_THROW(ThreadTeam(1, set), std::invalid_argument);
  }
}

TEST(ThreadTeam, WorkspaceGrowsAndIsAligned) {
  ThreadTeam team(1);
  for (const std::size_t floats : {1U, 100U, 5000U, 10U}) {
    float* memory = team.workspace(floats);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 64, 0U);
    for (std::size_t i = 0; i < floats; ++i) memory[i] = 1.0F;
  }
}

}  // namespace
}  // namespace muster::kernels
