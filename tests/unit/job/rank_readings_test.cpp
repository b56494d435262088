#include <gtest/gtest.h>

#include "job/train/train_job.hpp"
#include "testing/contains.hpp"

namespace muster::job {
namespace {

using muster::testing::contains;

plan::Plan plan_on(const std::vector<int>& gpus) {
  plan::Plan plan;
  for (std::size_t rank = 0; rank < gpus.size(); ++rank) {
    plan::RankPlan& one = plan.ranks.emplace_back();
    one.rank = static_cast<int>(rank);
    one.gpu.emplace();
    one.gpu->number = gpus[rank];
  }
  return plan;
}

wire::MemoryUse use(double reserved) {
  const auto bytes = [](double gibibyte_count) { return static_cast<std::int64_t>(gibibyte_count * (1 << 30)); };
  return {1, bytes(1), bytes(reserved), bytes(reserved), bytes(80)};
}

TEST(RankReadings, NameTheGpuThatARankHasAndNotTheRank) {
  const auto readings = rank_readings(plan_on({2, 5}), {{0, use(10)}, {1, use(75)}}, {});
  EXPECT_TRUE(contains(memory_report(readings), "  GPU 2: 1.00 GB allocated", "  GPU 5: 1.00 GB allocated"));
  const auto warnings = memory_warnings(readings);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].gpu, 5);
  EXPECT_TRUE(contains(warnings[0].text, "GPU 5 has 93.8 % of its memory taken"));
}

TEST(RankReadings, HaveWhatTheGpuSaysOfItself) {
  const auto readings = rank_readings(plan_on({2, 5}), {{0, use(10)}, {1, use(20)}},
                                      {{0, 0.1, gibibytes(1)}, {2, 0.97, gibibytes(12)}, {5, {}, gibibytes(79)}});
  EXPECT_TRUE(contains(memory_report(readings), "GPU 2: 1.00 GB allocated, 10.00 GB reserved, 80.00 GB total, GPU "
                                                "utilization 97%"));
  EXPECT_FALSE(readings[1].utilization);
  ASSERT_EQ(memory_warnings(readings).size(), 1u);  // another process fills GPU 5
  EXPECT_EQ(memory_warnings(readings)[0].gpu, 5);
}

TEST(RankReadings, OfCpuRanksAreTheHosts) {
  plan::Plan plan;
  plan.ranks.emplace_back();
  const auto readings = rank_readings(plan, {{0, use(75)}}, {{0, 0.5, gibibytes(3)}});
  EXPECT_FALSE(readings[0].gpu || readings[0].utilization);
  EXPECT_TRUE(contains(memory_warnings(readings).at(0).text, "the host has"));
}

}  // namespace
}  // namespace muster::job
