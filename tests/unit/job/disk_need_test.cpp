#include "job/train/disk_need.hpp"

#include <gtest/gtest.h>

#include "testing/contains.hpp"

namespace muster::job {
namespace {

using muster::testing::contains;

wire::TrainTask task_of(std::int64_t steps, std::optional<std::int64_t> save_every, std::optional<std::int64_t> keep,
                        spec::FinalSave at_end = spec::FinalSave::all) {
  wire::TrainTask task;
  task.steps = steps;
  task.save_every = save_every;
  task.keep = keep;
  task.save_at_end = at_end;
  return task;
}

DiskNeed need_of(const wire::TrainTask& task, ByteCount free) {
  DiskNeed need = disk_need(task, gibibytes(10), task.save_at_end == spec::FinalSave::nothing ? ByteCount{} : gibibytes(4));
  need.folder = "runs";
  need.free = free;
  return need;
}

ByteCount checkpoints_and_model(const wire::TrainTask& task) {
  const DiskNeed need = need_of(task, {});
  return need.peak() - need.records;
}

TEST(DiskNeed, CountsTheCheckpointThatIsBeingWrittenBesideThoseThatAreKept) {
  EXPECT_EQ(checkpoints_and_model(task_of(100, 10, 2)), gibibytes(30));
  EXPECT_EQ(checkpoints_and_model(task_of(100, 10, 1)), gibibytes(20));
}

TEST(DiskNeed, CountsEveryCheckpointWhereAllAreKept) {
  EXPECT_EQ(checkpoints_and_model(task_of(100, 10, {})), gibibytes(104));
  EXPECT_EQ(checkpoints_and_model(task_of(105, 10, {})), gibibytes(114));  // one more at the end
  EXPECT_EQ(checkpoints_and_model(task_of(105, 10, {}, spec::FinalSave::model)), gibibytes(104));
}

TEST(DiskNeed, IsTheModelAloneWhereNothingElseIsSaved) {
  EXPECT_EQ(checkpoints_and_model(task_of(100, {}, {})), gibibytes(14));
  EXPECT_EQ(checkpoints_and_model(task_of(100, {}, {}, spec::FinalSave::model)), gibibytes(4));
  EXPECT_EQ(checkpoints_and_model(task_of(100, {}, {}, spec::FinalSave::nothing)), gibibytes(0));
}

TEST(DiskNeed, OfAResumedRunLeavesOutWhatItHas) {
  DiskNeed need = need_of(task_of(100, 10, 2), gibibytes(20));
  EXPECT_FALSE(need.fits());
  need.present = gibibytes(20);
  EXPECT_TRUE(need.fits());
  EXPECT_EQ(need.needed(), gibibytes(10) + need.records);  // the next one is written beside those that are kept
}

TEST(DiskNeed, IsNotCheckedWhereFreeSpaceIsUnknown) {
  DiskNeed need = need_of(task_of(100, 10, {}), {});
  EXPECT_FALSE(need.fits());
  need.free.reset();
  EXPECT_TRUE(need.fits());
  EXPECT_TRUE(contains(disk_line(need), "free space unknown in runs"));
}

TEST(DiskNeed, IsRefusedWithBothNumbersAndSettingsThatFit) {
  const wire::TrainTask task = task_of(100, 10, {});
  const Error refusal = disk_refusal(need_of(task, gibibytes(45)), task);
  EXPECT_EQ(refusal.kind, Error::Kind::refused);
  EXPECT_TRUE(contains(refusal.what, "10 checkpoints of 10.0 GiB; a model of 4.0 GiB", "runs has 45.0 GiB free"));
  EXPECT_TRUE(contains(refusal.remedy, "free 59.0 GiB there", "training.save_total_limit=3", "--output"));
  const Error smaller = disk_refusal(need_of(task, gibibytes(5)), task);
  EXPECT_TRUE(contains(smaller.remedy, "training.save_at_end=model"));
  EXPECT_FALSE(contains(smaller.remedy, "save_total_limit"));
}

}  // namespace
}  // namespace muster::job
