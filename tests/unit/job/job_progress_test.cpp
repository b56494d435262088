#include "job/job_progress.hpp"

#include <gtest/gtest.h>

namespace muster::job {
namespace {

TEST(RankProgress, IsThatOfTheRankThatIsLeastFar) {
  RankProgress ranks;
  EXPECT_EQ(ranks.heard({"loading", 30, 100}, 0).share, 0.3);
  EXPECT_EQ(ranks.heard({"loading", 20, 100}, 1).share, 0.2);
  EXPECT_EQ(ranks.heard({"loading", 60, 100}, 0).share, 0.2);
  EXPECT_EQ(ranks.heard({"loading", 250, 100}, 1).share, 0.6);
}

TEST(RankProgress, OfSomethingElseBeginsAnew) {
  RankProgress ranks;
  ranks.heard({"measuring the loss", 10, 100}, 0);
  const JobProgress next = ranks.heard({"answering questions", 5, 10}, 1);
  EXPECT_EQ(next.what, "answering questions");
  EXPECT_EQ(next.share, 0.5);
}

TEST(ProgressLine, TellsTheShareOrElseTheTime) {
  EXPECT_EQ(progress_line({"answering questions", 0.456, std::chrono::seconds(3)}), "answering questions … 46 %");
  EXPECT_EQ(progress_line({"writing a checkpoint", std::nullopt, std::chrono::milliseconds(12900)}),
            "writing a checkpoint … 12 s");
  EXPECT_EQ(RankProgress().heard({"writing a checkpoint", 0, std::nullopt}, 0).share, std::nullopt);
}

}  // namespace
}  // namespace muster::job
