#include "job/train/train_text.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "testing/contains.hpp"

namespace muster::job {
namespace {

using testing::contains;

TrainProgress progress() {
  TrainProgress now;
  now.step = 120;
  now.steps = 1200;
  now.loss = 0.83124;
  now.learning_rate = 1.9e-3;
  now.gradient_norm = 0.4213;
  now.tokens_per_second = 5210.4;
  now.flop_utilization = 0.121;
  now.memory = ByteCount{static_cast<std::int64_t>(1.2 * (1 << 30))};
  now.seconds_left = 58.3;
  return now;
}

TEST(StepLine, SaysWhereARunIs) {
  EXPECT_EQ(step_line(progress()),
            "step 120/1200  loss 0.8312  lr 1.9e-03  norm 0.42  5,210 tokens/s  12.1 % MFU  1.2 GiB  58 s left");
}

TEST(StepLine, LeavesOutWhatIsNotKnown) {
  TrainProgress now = progress();
  now.flop_utilization.reset();
  now.memory.reset();
  now.seconds_left.reset();
  now.steps = 0;
  EXPECT_EQ(step_line(now), "step 120  loss 0.8312  lr 1.9e-03  norm 0.42  5,210 tokens/s");
}

TEST(StepLine, TellsSkippedStepsAndTheEpoch) {
  TrainProgress now = progress();
  now.skipped_steps = 3;
  now.epoch = 1.5;
  now.seconds_left = 7322;
  EXPECT_TRUE(contains(step_line(now), "epoch 1.50", "3 skipped", "2 h 2 min left"));
}

TEST(StepLine, TellsHowFarPreferencesAreLearnt) {
  TrainProgress now = progress();
  now.preferred = 0.8125;
  now.margin = 0.41234;
  EXPECT_TRUE(contains(step_line(now), "loss 0.8312  preferred 81.2 %  margin 0.412  lr"));
}

TEST(StepLine, ShowsNumbersOfAnySize) {
  TrainProgress now = progress();
  now.loss = 3.21e-5;
  now.gradient_norm = 1234.56;
  now.tokens_per_second = 1234567;
  EXPECT_TRUE(contains(step_line(now), "loss 3.21e-05", "norm 1234.6", "1,234,567 tokens/s"));
  now.loss = std::nan("");
  now.gradient_norm = 0.00314;
  EXPECT_TRUE(contains(step_line(now), "loss nan", "norm 3.1e-03"));
}

RankReading reading(int rank, std::optional<int> gpu, double allocated, double reserved, double total) {
  const auto bytes = [](double gibibyte_count) {
    return ByteCount{static_cast<std::int64_t>(gibibyte_count * (1 << 30))};
  };
  return {rank, gpu, bytes(allocated), bytes(reserved), bytes(total), {}, {}};
}

TEST(MemoryReport, HasTheGuidesForm) {
  EXPECT_EQ(memory_report({reading(0, 0, 45.23, 48.5, 80), reading(1, 1, 42.18, 45.3, 80)}),
            "GPU Memory Summary:\n"
            "  GPU 0: 45.23 GB allocated, 48.50 GB reserved, 80.00 GB total\n"
            "  GPU 1: 42.18 GB allocated, 45.30 GB reserved, 80.00 GB total\n");
}

TEST(MemoryReport, TellsRanksThatShareAGpuApart) {
  RankReading first = reading(0, 2, 1, 2, 80);
  first.utilization = 0.874;
  EXPECT_EQ(memory_report({first, reading(1, 2, 1, 2, 80)}),
            "GPU Memory Summary:\n"
            "  GPU 2 rank 0: 1.00 GB allocated, 2.00 GB reserved, 80.00 GB total, GPU utilization 87%\n"
            "  GPU 2 rank 1: 1.00 GB allocated, 2.00 GB reserved, 80.00 GB total\n");
}

TEST(MemoryReport, HasCpuRanks) {
  EXPECT_EQ(memory_report({reading(0, {}, 1, 1, 16)}),
            "Memory Summary:\n  rank 0 (CPU): 1.00 GB allocated, 1.00 GB reserved, 16.00 GB total\n");
}

TEST(MemoryWarning, ComesAboveNinetyPerCentOfADevice) {
  EXPECT_TRUE(memory_warnings({reading(0, 0, 10, 72.0, 80)}).empty());
  const auto warnings = memory_warnings({reading(0, 0, 10, 72.08, 80), reading(1, 1, 10, 20, 80)});
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(contains(warnings[0].text, "GPU 0 has 90.1 % of its memory taken (72.1 of 80.0 GiB)", "micro_batch_size"));
}

TEST(MemoryWarning, CountsEveryRankOfADeviceAndWhatOthersTake) {
  EXPECT_EQ(memory_warnings({reading(0, 0, 1, 40, 80), reading(1, 0, 1, 39, 80)}).size(), 1u);
  RankReading crowded = reading(0, 0, 1, 2, 80);
  crowded.used = gibibytes(79);
  EXPECT_EQ(memory_warnings({crowded}).size(), 1u);
}

}  // namespace
}  // namespace muster::job
