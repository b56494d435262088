#include "schedule/duration_estimates.hpp"

#include <gtest/gtest.h>

#include "machine.hpp"

namespace muster::schedule {
namespace {

TEST(DurationEstimates, ExpectTheLongestSeenRoundedUp) {
  DurationEstimates learned;
  EXPECT_EQ(learned.expected("sft"), std::nullopt);
  EXPECT_TRUE(learned.learn("sft", seconds(100)));
  EXPECT_FALSE(learned.learn("sft", seconds(40)));
  EXPECT_GE(*learned.expected("sft"), seconds(100));
  EXPECT_LE(*learned.expected("sft"), seconds(113));
  EXPECT_TRUE(learned.learn("sft", seconds(300)));
  EXPECT_GE(*learned.expected("sft"), seconds(300));
  EXPECT_EQ(learned.expected("dpo"), std::nullopt);
}

TEST(DurationEstimates, ForgetALongOneAfterAHundredShortOnes) {
  DurationEstimates learned;
  learned.learn("sft", seconds(1000));
  for (int i = 0; i < 100; ++i) learned.learn("sft", seconds(10));
  EXPECT_LE(*learned.expected("sft"), seconds(12));
}

TEST(DurationEstimates, OfJobsWithoutANameTeachNothing) {
  DurationEstimates learned;
  EXPECT_FALSE(learned.learn("", seconds(10)));
  EXPECT_EQ(learned.expected(""), std::nullopt);
}

}  // namespace
}  // namespace muster::schedule
