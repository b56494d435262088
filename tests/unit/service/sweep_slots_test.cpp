#include "service/sweep_slots.hpp"

#include <gtest/gtest.h>

namespace muster::service {
namespace {

SlotOptions multi(int per_trial, int runs, std::optional<int> total = std::nullopt) {
  SlotOptions options;
  options.per_trial = per_trial;
  options.runs = runs;
  options.total = total;
  options.first_gpus = true;
  return options;
}

TEST(SweepSlots, GiveRunsOfOneSweepTheNextGpusEach) {
  const auto shape = shape_slots(multi(2, 4), 8);
  ASSERT_TRUE(shape);
  EXPECT_EQ(texts_of(shape->request->ids), (std::vector<std::string>{"0", "1", "2", "3", "4", "5", "6", "7"}));
  EXPECT_EQ(shape->per_slot, 2);
  EXPECT_EQ(shape->slots, 4);
  EXPECT_TRUE(shape_slots(multi(4, 2, 8), 8));
}

TEST(SweepSlots, RefuseMoreThanThereAre) {
  for (const auto& options : {multi(4, 4), multi(2, 3, 4), multi(1, 1, 9), multi(1 << 30, 4000)}) {
    const auto shape = shape_slots(options, 8);
    ASSERT_FALSE(shape);
    EXPECT_EQ(shape.error().kind, Error::Kind::refused);
  }
}

TEST(SweepSlots, AreNotMoreThanAnyMachineCanRun) {
  SlotOptions options;
  options.runs = 2'000'000'000;
  options.without_gpus = true;
  EXPECT_EQ(shape_slots(options, 8).error().kind, Error::Kind::bad_input);
  options.without_gpus = false;
  options.runs = 4000;
  options.per_trial = 2'000'000'000;
  EXPECT_GT(shape_slots(options, 8)->request->count, 8);
  options.gpus = 8;
  EXPECT_EQ(shape_slots(options, 8).error().kind, Error::Kind::refused);
}

TEST(SweepSlots, DivideNamedGpusEvenlyOrNotAtAll) {
  SlotOptions options;
  options.ids = {"4", "5", "6", "7"};
  EXPECT_EQ(shape_slots(options, 8)->slots, 4);
  options.one_trial_on_all = true;
  EXPECT_EQ(shape_slots(options, 8)->per_slot, 4);
  options.runs = 2;
  EXPECT_EQ(shape_slots(options, 8)->per_slot, 2);
  options.runs = 3;
  EXPECT_FALSE(shape_slots(options, 8));
  options.runs.reset();
  options.per_trial = 3;
  EXPECT_FALSE(shape_slots(options, 8));
}

TEST(SweepSlots, AreOnTheCpuOnlyWhereNoGpuIsAskedFor) {
  SlotOptions options;
  options.runs = 3;
  const auto cpu = shape_slots(options, 0);
  ASSERT_TRUE(cpu);
  EXPECT_FALSE(cpu->request);
  EXPECT_EQ(cpu->slots, 3);
  options.gpus = 3;
  EXPECT_EQ(shape_slots(options, 0).error().kind, Error::Kind::refused);
  options.without_gpus = true;
  EXPECT_EQ(shape_slots(options, 8).error().kind, Error::Kind::bad_input);
}

TEST(SweepSlots, TakeAllThatAreFreeWhereNothingIsSaid) {
  const auto shape = shape_slots({}, 8);
  ASSERT_TRUE(shape);
  EXPECT_TRUE(shape->request->up_to);
  EXPECT_FALSE(shape->slots);
}

}  // namespace
}  // namespace muster::service
