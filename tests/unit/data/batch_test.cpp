#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "data/batch_loader.hpp"
#include "data/token_file.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::data {
namespace {

Dataset some_dataset(const testing::ScratchFolder& folder, std::int32_t count) {
  auto writer = TokenFileWriter::create(folder.path() / "tokens").value();
  for (std::int32_t i = 0; i < count; ++i) {
    Sample sample;
    const std::int32_t length = 2 + i * 7 % 13;
    for (std::int32_t k = 0; k < length; ++k) sample.tokens.push_back(100 * i + k);
    sample.trained.push_back(
        {static_cast<std::uint32_t>(1 + i % length % (length - 1)), static_cast<std::uint32_t>(length)});
    EXPECT_TRUE(writer.add(sample));
  }
  EXPECT_TRUE(writer.commit({}));
  return Dataset::open(folder.path() / "tokens", Verification::everything).value();
}

BatchSchedule schedule_of(const Dataset& dataset, bool packing, std::int64_t batch_size) {
  return BatchSchedule(dataset.lengths(), {.seed = 5, .packing = packing, .sequence_length = 20}, batch_size);
}

TEST(BatchSchedule, TakesEveryUnitOfAnEpochOnceAndNoStepReachesOverItsEnd) {
  const testing::ScratchFolder folder;
  const Dataset dataset = some_dataset(folder, 41);
  for (const bool packing : {false, true})
    for (const std::int64_t batch : {1, 4, 7, 41, 50}) {
      auto schedule = schedule_of(dataset, packing, batch);
      for (const std::int64_t epoch : {0, 1}) {
        std::vector<std::uint32_t> seen;
        const std::int64_t steps = schedule.steps_in(epoch);
        for (std::int64_t i = 0; i < steps; ++i) {
          const StepUnits step = schedule.next();
          EXPECT_EQ(step.begin.epoch, epoch);
          EXPECT_LE(step.units.size(), static_cast<std::size_t>(batch));
          for (const Unit& unit : step.units) seen.insert(seen.end(), unit.begin(), unit.end());
        }
        EXPECT_EQ(schedule.cursor(), (BatchCursor{epoch + 1, 0}));
        std::ranges::sort(seen);
        ASSERT_EQ(seen.size(), 41u);
        for (std::uint32_t i = 0; i < 41; ++i) EXPECT_EQ(seen[i], i);
      }
    }
}

TEST(BatchSchedule, GoesOnFromAnyCursorAsIfItHadNotStopped) {
  const testing::ScratchFolder folder;
  const Dataset dataset = some_dataset(folder, 23);
  for (const bool packing : {false, true}) {
    auto whole = schedule_of(dataset, packing, 4);
    for (std::int64_t done = 0; done < 20; ++done) {
      auto resumed = schedule_of(dataset, packing, 4);
      resumed.seek(whole.cursor());
      EXPECT_EQ(schedule_of(dataset, packing, 4).cursor_after(done), whole.cursor());
      EXPECT_EQ(resumed.next(), whole.next());
    }
  }
}

// The passes of all ranks hold the units of the step, each once, whatever the ranks and the passes.
TEST(StepShare, DealsEveryUnitOnceInTheSameNumberOfPassesForEveryRank) {
  for (std::uint32_t count = 1; count <= 13; ++count) {
    std::vector<Unit> units;
    for (std::uint32_t i = 0; i < count; ++i) units.push_back({i});
    for (std::int64_t ranks = 1; ranks <= 5; ++ranks)
      for (std::int64_t micro = 1; micro <= 4; ++micro) {
        std::vector<std::uint32_t> seen;
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
          const RankPlace place{ranks, rank, micro};
          const auto passes = share(units, place);
          EXPECT_EQ(static_cast<std::int64_t>(passes.size()), passes_of(count, place));
          for (const auto& pass : passes) {
            EXPECT_LE(static_cast<std::int64_t>(pass.size()), micro);
            for (const Unit& unit : pass) seen.insert(seen.end(), unit.begin(), unit.end());
          }
        }
        std::ranges::sort(seen);
        ASSERT_EQ(seen.size(), count);
        for (std::uint32_t i = 0; i < count; ++i) EXPECT_EQ(seen[i], i);
      }
  }
}

TEST(MicroBatch, PredictsEachNextTokenWithinItsOwnSample) {
  const testing::ScratchFolder folder;
  auto writer = TokenFileWriter::create(folder.path() / "tokens").value();
  ASSERT_TRUE(writer.add({{10, 11, 12, 13}, {{2, 4}}}));
  ASSERT_TRUE(writer.add({{20, 21, 22}, {{1, 2}}}));
  ASSERT_TRUE(writer.commit({}));
  const auto dataset = Dataset::open(folder.path() / "tokens", Verification::everything).value();
  const std::vector<Unit> units{{0, 1}, {0}};
  const MicroBatch batch = make_micro_batch(dataset, units);
  EXPECT_EQ(batch.tokens, (std::vector<std::int64_t>{10, 11, 12, 20, 21, 10, 11, 12}));
  EXPECT_EQ(batch.parts, (std::vector<std::int64_t>{3, 2, 3}));
  EXPECT_EQ(batch.trained_rows, (std::vector<std::int64_t>{1, 2, 3, 6, 7}));
  EXPECT_EQ(batch.targets, (std::vector<std::int64_t>{12, 13, 21, 12, 13}));
}

TEST(BatchLoader, GivesTheSameStepsWithAnyNumberOfThreads) {
  const testing::ScratchFolder folder;
  const Dataset dataset = some_dataset(folder, 37);
  BatchLoader plain(dataset, schedule_of(dataset, true, 5), {2, 1, 2}, {.threads = 0});
  BatchLoader one(dataset, schedule_of(dataset, true, 5), {2, 1, 2}, {.threads = 1, .read_ahead = 1});
  BatchLoader many(dataset, schedule_of(dataset, true, 5), {2, 1, 2}, {.threads = 3, .read_ahead = 6});
  for (int i = 0; i < 60; ++i) {
    const LoadedStep step = plain.next();
    EXPECT_EQ(one.next(), step);
    EXPECT_EQ(many.next(), step);
  }
}

// Over any ranks and passes the same rows are trained on, and every rank knows their number.
TEST(BatchLoader, TrainsTheSameTokensForAnyNumberOfRanks) {
  const testing::ScratchFolder folder;
  const Dataset dataset = some_dataset(folder, 19);
  for (const bool packing : {false, true}) {
    std::map<std::int64_t, std::vector<std::vector<std::int64_t>>> targets;  // by ranks: of each step, sorted
    for (const std::int64_t ranks : {1, 2, 3, 4})
      for (std::int64_t step = 0; step < 6; ++step) {
        std::vector<std::int64_t> all;
        std::int64_t known = 0;
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
          BatchLoader loader(dataset, schedule_of(dataset, packing, 8), {ranks, rank, 1 + ranks % 2}, {});
          LoadedStep loaded;
          for (std::int64_t i = 0; i <= step; ++i) loaded = loader.next();
          known = loaded.totals.trained_tokens;
          for (const MicroBatch& pass : loaded.passes) all.insert(all.end(), pass.targets.begin(), pass.targets.end());
        }
        EXPECT_EQ(known, static_cast<std::int64_t>(all.size()));
        std::ranges::sort(all);
        targets[ranks].push_back(std::move(all));
      }
    for (const std::int64_t ranks : {2, 3, 4}) EXPECT_EQ(targets[ranks], targets[1]);
  }
}

TEST(BatchLoader, EndsItsThreadsWhileTheyWait) {
  const testing::ScratchFolder folder;
  const Dataset dataset = some_dataset(folder, 5);
  for (int i = 0; i < 20; ++i) {
    BatchLoader loader(dataset, schedule_of(dataset, false, 2), {}, {.threads = 2, .read_ahead = 2});
    if (i % 2 == 0) loader.next();
  }
}

}  // namespace
}  // namespace muster::data
