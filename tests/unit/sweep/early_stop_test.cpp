#include "sweep/early_stop.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace muster::sweep {
namespace {

const EarlyStop halving{{10, 30, 90}, 3, 1};

std::vector<Report> at(std::int64_t step, std::vector<double> scores) {
  std::vector<Report> reports;
  for (std::size_t i = 0; i < scores.size(); ++i) reports.push_back({"t" + std::to_string(i), step, scores[i]});
  return reports;
}

TEST(EarlyStop, KeepsTheBestThirdAtARung) {
  const auto reports = at(10, {0.1, 0.2, 0.3, 0.4, 0.5, 0.6});
  int kept = 0;
  for (int i = 0; i < 6; ++i)
    if (judge(halving, Goal::maximize, reports, "t" + std::to_string(i)) == Verdict::go_on) ++kept;
  EXPECT_EQ(kept, 2);
  EXPECT_EQ(judge(halving, Goal::maximize, reports, "t5"), Verdict::go_on);
  EXPECT_EQ(judge(halving, Goal::minimize, reports, "t5"), Verdict::stop);
  EXPECT_EQ(judge(halving, Goal::minimize, reports, "t0"), Verdict::go_on);
}

TEST(EarlyStop, LetsTheFirstTrialsOfARungGoOn) {
  EXPECT_EQ(judge(halving, Goal::maximize, at(10, {0.5, 0.1}), "t1"), Verdict::go_on);
  EXPECT_EQ(judge(halving, Goal::maximize, at(10, {0.5, 0.1, 0.4}), "t1"), Verdict::stop);
}

TEST(EarlyStop, DecidesNothingBelowTheFirstRung) {
  EXPECT_EQ(judge(halving, Goal::maximize, at(9, {0.5, 0.1, 0.4, 0.3}), "t1"), Verdict::go_on);
}

TEST(EarlyStop, TakesTheFirstScoreAtOrAfterARung) {
  auto reports = at(10, {0.5, 0.1, 0.4});
  reports.push_back({"t1", 20, 0.9});  // later than the rung, before the next
  EXPECT_EQ(judge(halving, Goal::maximize, reports, "t1"), Verdict::stop);
  // One that reports rarely is compared with what it first says.
  std::vector<Report> rare = at(10, {0.5, 0.1});
  rare.push_back({"t2", 14, 0.6});
  EXPECT_EQ(judge(halving, Goal::maximize, rare, "t2"), Verdict::go_on);
}

TEST(EarlyStop, StopsWhatIsNoNumber) {
  EXPECT_EQ(judge(halving, Goal::minimize, at(10, {std::nan("")}), "t0"), Verdict::stop);
  EXPECT_EQ(judge(halving, Goal::maximize, at(10, {std::nan("")}), "t0"), Verdict::stop);
}

TEST(EarlyStop, ComparesOnTheHighestRungThatATrialHasReached) {
  auto reports = at(10, {0.5, 0.1, 0.4});
  for (const Report& late : at(30, {0.2, 0.3, 0.1})) reports.push_back(late);
  EXPECT_EQ(judge(halving, Goal::maximize, reports, "t1"), Verdict::go_on);
  EXPECT_EQ(judge(halving, Goal::maximize, reports, "t0"), Verdict::stop);
}

TEST(EarlyStop, OfHyperbandSparesSomeTrialsTheFirstRungs) {
  EarlyStop hyperband = halving;
  hyperband.ladders = 3;
  std::vector<double> scores;
  for (int i = 0; i < 90; ++i) scores.push_back(i);
  int stopped = 0, plain = 0;
  const auto reports = at(10, scores);
  for (const Report& report : reports) {
    if (judge(hyperband, Goal::maximize, reports, report.trial) == Verdict::stop) ++stopped;
    if (judge(halving, Goal::maximize, reports, report.trial) == Verdict::stop) ++plain;
  }
  EXPECT_EQ(plain, 60);
  EXPECT_GT(stopped, 10);  // a third of the trials starts at this rung, and two thirds of those stop
  EXPECT_LT(stopped, 30);
}

TEST(EarlyStop, HasRungsFromTheLeastUpAndFromTheMostDown) {
  EXPECT_EQ(rungs_from_least(3, 2, 30), (std::vector<std::int64_t>{3, 6, 12, 24}));
  EXPECT_EQ(rungs_from_least(1, 1.5, 6), (std::vector<std::int64_t>{1, 2, 3, 5}));
  EXPECT_EQ(rungs_below_most(27, 3, 2), (std::vector<std::int64_t>{3, 9}));
  EXPECT_EQ(rungs_below_most(27, 3, 9), (std::vector<std::int64_t>{1, 3, 9}));
}

}  // namespace
}  // namespace muster::sweep
