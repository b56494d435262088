#include "service/sweep_slots.hpp"

#include <gtest/gtest.h>

namespace muster::service {
namespace {

SlotWish multi(int per_trial, int runs, std::optional<int> total = std::nullopt) {
  SlotWish wish;
  wish.per_trial = per_trial;
  wish.runs = runs;
  wish.total = total;
  wish.first_gpus = true;
  return wish;
}

TEST(SweepSlots, GiveRunsOfOneSweepTheNextGpusEach) {
  const auto shape = shape_slots(multi(2, 4), 8);
  ASSERT_TRUE(shape);
  EXPECT_EQ(shape->request->ids, (std::vector<std::string>{"0", "1", "2", "3", "4", "5", "6", "7"}));
  EXPECT_EQ(shape->per_slot, 2);
  EXPECT_EQ(shape->slots, 4);
  EXPECT_TRUE(shape_slots(multi(4, 2, 8), 8));
}

TEST(SweepSlots, RefuseMoreThanThereAre) {
  for (const auto& wish : {multi(4, 4), multi(2, 3, 4), multi(1, 1, 9), multi(1 << 30, 4000)}) {
    const auto shape = shape_slots(wish, 8);
    ASSERT_FALSE(shape);
    EXPECT_EQ(shape.error().kind, Error::Kind::refused);
  }
}

TEST(SweepSlots, AreNotMoreThanAnyMachineCanRun) {
  SlotWish wish;
  wish.runs = 2'000'000'000;
  wish.without_gpus = true;
  EXPECT_EQ(shape_slots(wish, 8).error().kind, Error::Kind::bad_input);
  wish.without_gpus = false;
  wish.runs = 4000;
  wish.per_trial = 2'000'000'000;
  EXPECT_GT(shape_slots(wish, 8)->request->count, 8);
  wish.gpus = 8;
  EXPECT_EQ(shape_slots(wish, 8).error().kind, Error::Kind::refused);
}

TEST(SweepSlots, DivideNamedGpusEvenlyOrNotAtAll) {
  SlotWish wish;
  wish.ids = {"4", "5", "6", "7"};
  EXPECT_EQ(shape_slots(wish, 8)->slots, 4);
  wish.one_trial_on_all = true;
  EXPECT_EQ(shape_slots(wish, 8)->per_slot, 4);
  wish.runs = 2;
  EXPECT_EQ(shape_slots(wish, 8)->per_slot, 2);
  wish.runs = 3;
  EXPECT_FALSE(shape_slots(wish, 8));
  wish.runs.reset();
  wish.per_trial = 3;
  EXPECT_FALSE(shape_slots(wish, 8));
}

TEST(SweepSlots, AreOnTheCpuOnlyWhereNoGpuIsAskedFor) {
  SlotWish wish;
  wish.runs = 3;
  const auto cpu = shape_slots(wish, 0);
  ASSERT_TRUE(cpu);
  EXPECT_FALSE(cpu->request);
  EXPECT_EQ(cpu->slots, 3);
  wish.gpus = 3;
  EXPECT_EQ(shape_slots(wish, 0).error().kind, Error::Kind::refused);
  wish.without_gpus = true;
  EXPECT_EQ(shape_slots(wish, 8).error().kind, Error::Kind::bad_input);
}

TEST(SweepSlots, TakeAllThatAreFreeWhereNothingIsSaid) {
  const auto shape = shape_slots({}, 8);
  ASSERT_TRUE(shape);
  EXPECT_TRUE(shape->request->up_to);
  EXPECT_FALSE(shape->slots);
}

}  // namespace
}  // namespace muster::service
