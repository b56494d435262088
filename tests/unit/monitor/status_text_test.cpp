#include "monitor/status_text.hpp"

#include <gtest/gtest.h>

namespace muster::monitor {
namespace {

TEST(StatusText, ReadsTheLineOfATrainingStep) {
  const auto progress = progress_of_line(
      "step 120/1200  epoch 0.30  loss 0.8312  lr 1.9e-03  norm 0.42  5,210 tokens/s  12.1 % MFU  1.2 GiB  1 min 8 s "
      "left");
  ASSERT_TRUE(progress);
  EXPECT_EQ(*progress, (Progress{120, 1200, 0.8312, 5210, 68}));
}

TEST(StatusText, ReadsAStepOfAnUnknownNumber) {
  const auto progress = progress_of_line("step 3  loss nan  lr 1e-3  norm 1  7 tokens/s");
  ASSERT_TRUE(progress);
  EXPECT_EQ(progress->step, 3);
  EXPECT_FALSE(progress->total);
}

TEST(StatusText, ReadsABarOfTqdm) {
  const auto progress = progress_of_line("epoch 1:  45%|████▌     | 45/100 [00:10<01:12,  4.50it/s]");
  ASSERT_TRUE(progress);
  EXPECT_EQ(*progress, (Progress{45, 100, {}, {}, 72}));
  EXPECT_FALSE(progress_of_line("  0%|          | 0/100 [00:00<?, ?it/s]")->seconds_left);
}

TEST(StatusText, TakesNothingFromOtherLines) {
  for (const char* line : {"", "done", "next step is 4", "steps 3/4", "a | b 3/4", "[1/2] compiling", "step one"})
    EXPECT_FALSE(progress_of_line(line)) << line;
}

}  // namespace
}  // namespace muster::monitor
