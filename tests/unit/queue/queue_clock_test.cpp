#include "queue/queue_clock.hpp"

#include <gtest/gtest.h>

namespace muster::queue {
namespace {

using schedule::Duration;
using schedule::Time;
using namespace std::chrono_literals;

constexpr Time noon{Duration(1'800'000'000'000)};
const ClockReading at_noon{"boot-1", 100s, noon};

ClockReading later(Duration passed, Duration wall_set_by = 0s, std::string boot = "boot-1") {
  return {std::move(boot), at_noon.since_boot + passed, noon + passed + wall_set_by};
}

TEST(QueueClock, RunsOnAsTimePassedWhereTheWallClockWasSetBetweenTwoConductors) {
  const QueueClock first(at_noon, std::nullopt, noon - 1h, true);
  EXPECT_EQ(first.at(at_noon), noon);
  for (const Duration set_by : {Duration(1h), Duration(-1h), Duration(0)}) {
    const ClockReading now = later(5s, set_by);
    const QueueClock second(now, first.record(), noon + 4s, true);
    EXPECT_EQ(second.at(now), noon + 5s) << set_by.count();
    EXPECT_EQ(QueueClock(now, first.record()).at(now), noon + 5s) << "for those who only look";
    EXPECT_EQ(second.record(), first.record()) << "nothing is to be written";
  }
}

TEST(QueueClock, OfAQueueWithoutOpenJobsTakesTheWallClockAgainButNeverGoesBack) {
  const QueueClock first(at_noon, std::nullopt, noon, true);
  const ClockReading ahead = later(5s, 1h), behind = later(5s, -1h);
  EXPECT_EQ(QueueClock(ahead, first.record(), noon, false).at(ahead), ahead.wall);
  EXPECT_EQ(QueueClock(behind, first.record(), noon + 4s, false).at(behind), noon + 4s);
}

TEST(QueueClock, AfterTheMachineWasDownIsTheWallClock) {
  const QueueClock first(at_noon, std::nullopt, noon, true);
  const ClockReading next{"boot-2", 20s, noon + 300s};
  EXPECT_EQ(QueueClock(next, first.record(), noon, true).at(next), next.wall);
}

TEST(BootFile, IsReadBackAndThatOfAnEarlierVersionToo) {
  const BootRecord record = QueueClock(at_noon, std::nullopt, noon, true).record();
  EXPECT_EQ(parse_boot(to_text(record)), record);
  EXPECT_EQ(parse_boot("boot-1\n"), (BootRecord{"boot-1", {}}));
  const ClockReading now = later(5s);
  EXPECT_EQ(QueueClock(now, parse_boot("boot-1\n"), noon, true).at(now), now.wall);
}

}  // namespace
}  // namespace muster::queue
