#include "schedule/learned_lengths.hpp"

#include <gtest/gtest.h>

#include "machine.hpp"

namespace muster::schedule {
namespace {

TEST(LearnedLengths, ExpectTheLongestSeenRoundedUp) {
  LearnedLengths learned;
  EXPECT_EQ(learned.expected("sft"), std::nullopt);
  EXPECT_TRUE(learned.learn("sft", seconds(100)));
  EXPECT_FALSE(learned.learn("sft", seconds(40)));
  EXPECT_GE(*learned.expected("sft"), seconds(100));
  EXPECT_LE(*learned.expected("sft"), seconds(113));
  EXPECT_TRUE(learned.learn("sft", seconds(300)));
  EXPECT_GE(*learned.expected("sft"), seconds(300));
  EXPECT_EQ(learned.expected("dpo"), std::nullopt);
}

TEST(LearnedLengths, ForgetALongOneAfterAHundredShortOnes) {
  LearnedLengths learned;
  learned.learn("sft", seconds(1000));
  for (int i = 0; i < 100; ++i) learned.learn("sft", seconds(10));
  EXPECT_LE(*learned.expected("sft"), seconds(12));
}

TEST(LearnedLengths, OfJobsWithoutANameTeachNothing) {
  LearnedLengths learned;
  EXPECT_FALSE(learned.learn("", seconds(10)));
  EXPECT_EQ(learned.expected(""), std::nullopt);
}

}  // namespace
}  // namespace muster::schedule
