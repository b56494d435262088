#include "checkpoint/checkpoint_saver.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <random>

#include "system/files.hpp"
#include "checkpoint/checkpoint_folder.hpp"
#include "testing/contains.hpp"
#include "testing/scratch_folder.hpp"
#include "training_run.hpp"

namespace muster::checkpoint {
namespace {

namespace fs = std::filesystem;
using muster::testing::contains;
using testing::holds;
using testing::place_of;
using testing::sample_tensors;
using testing::save;
using testing::state_at;

std::shared_ptr<HostCopy> copy_of(int rank, int ranks, std::int64_t step) {
  auto copy = std::make_shared<HostCopy>(share_of(sample_tensors(), ranks, rank));
  testing::fill(*copy, step);
  return copy;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

class Saver : public ::testing::Test {
 protected:
  const fs::path& folder() const { return scratch_.path(); }
  fs::path staging(std::int64_t step) const { return folder() / staging_name(step, "a1"); }

  muster::testing::ScratchFolder scratch_;
};

TEST_F(Saver, SavesAgainAndAgainWithTheSameMemory) {
  CheckpointSaver saver(place_of(folder(), 0, 1), sample_tensors());
  EXPECT_TRUE(saver.finished());
  EXPECT_FALSE(saver.wait());
  const auto copy = copy_of(0, 1, 1);
  for (const std::int64_t step : {1, 2, 3}) {
    testing::fill(*copy, step);
    ASSERT_TRUE(saver.begin(state_at(step), copy));
    const auto saved = saver.wait();
    ASSERT_TRUE(saved) << saved.error().what;
    EXPECT_TRUE(saver.finished());
    EXPECT_GT(saved->bytes, copy->all().size_bytes());
  }
  EXPECT_EQ(names_in(folder()), (std::vector<std::string>{"step-1", "step-2", "step-3"}));
  for (const std::int64_t step : {1, 2, 3})
    EXPECT_TRUE(holds(*TrainingCheckpoint::open(folder() / checkpoint_name(step)), step));
}

TEST_F(Saver, MakesNothingVisibleBeforeTheLastRankIsDone) {
  CheckpointSaver first(place_of(folder(), 0, 3), sample_tensors()), second(place_of(folder(), 1, 3), sample_tensors());
  ASSERT_TRUE(first.begin(state_at(4), copy_of(0, 3, 4)));
  ASSERT_TRUE(second.begin(state_at(4), copy_of(1, 3, 4)));
  ASSERT_TRUE(second.wait());
  EXPECT_FALSE(first.finished());
  EXPECT_TRUE(find_checkpoints(folder()).empty());
  const auto early = first.begin(state_at(5), copy_of(0, 3, 5));
  ASSERT_FALSE(early);
  EXPECT_TRUE(contains(early.error().what, "step 4 is still being saved"));
  CheckpointSaver third(place_of(folder(), 2, 3), sample_tensors());
  ASSERT_TRUE(third.begin(state_at(4), copy_of(2, 3, 4)));
  ASSERT_TRUE(first.wait());
  EXPECT_TRUE(holds(*newest_good(folder(), 1).checkpoint, 4));
}

TEST_F(Saver, GivesUpWithoutATraceWhenItIsDropped) {
  {
    CheckpointSaver saver(place_of(folder(), 0, 2), sample_tensors());
    ASSERT_TRUE(saver.begin(state_at(4), copy_of(0, 2, 4)));
  }
  EXPECT_TRUE(names_in(folder()).empty());
}

TEST_F(Saver, NamesTheRankThatDoesNotFinish) {
  SaverContext place = place_of(folder(), 0, 2);
  place.patience = std::chrono::milliseconds(30);
  CheckpointSaver saver(place, sample_tensors());
  ASSERT_TRUE(saver.begin(state_at(4), copy_of(0, 2, 4)));
  const auto saved = saver.wait();
  ASSERT_FALSE(saved);
  EXPECT_TRUE(contains(saved.error().what, "step 4 was not saved", "rank 1", "rank-1-of-2.state"));
  EXPECT_TRUE(names_in(folder()).empty());
}

TEST_F(Saver, TellsWhyAnotherRankFailed) {
  fs::create_directories(staging(4) / "rank-1-of-2.state.part" / "in the way");
  CheckpointSaver first(place_of(folder(), 0, 2), sample_tensors()), second(place_of(folder(), 1, 2), sample_tensors());
  ASSERT_TRUE(second.begin(state_at(4), copy_of(1, 2, 4)));
  ASSERT_FALSE(second.wait());
  ASSERT_TRUE(first.begin(state_at(4), copy_of(0, 2, 4)));
  const auto saved = first.wait();
  ASSERT_FALSE(saved);
  EXPECT_TRUE(contains(saved.error().what, "rank 1: cannot write", "rank-1-of-2.state"));
}

TEST_F(Saver, LeavesTheFolderToTheOthersWhenTheFirstRankCannotWriteItsPart) {
  fs::create_directories(staging(4) / "rank-0-of-2.state.part" / "in the way");
  CheckpointSaver first(place_of(folder(), 0, 2), sample_tensors()), second(place_of(folder(), 1, 2), sample_tensors());
  ASSERT_TRUE(first.begin(state_at(4), copy_of(0, 2, 4)));
  const auto saved = first.wait();
  ASSERT_FALSE(saved);
  EXPECT_TRUE(contains(saved.error().what, "cannot write", "rank-0-of-2.state"));
  ASSERT_TRUE(second.begin(state_at(4), copy_of(1, 2, 4)));
  EXPECT_TRUE(second.wait());
  EXPECT_TRUE(find_checkpoints(folder()).empty());
}

TEST_F(Saver, RefusesFilesThatTogetherLackAnElement) {
  CheckpointSaver saver(place_of(folder(), 0, 1), sample_tensors());
  ASSERT_TRUE(saver.begin(state_at(4), copy_of(0, 2, 4)));  // half of them
  const auto saved = saver.wait();
  ASSERT_FALSE(saved);
  EXPECT_TRUE(contains(saved.error().what, "are in no file"));
  EXPECT_TRUE(names_in(folder()).empty());
}

TEST_F(Saver, RefusesAStateThatCouldNotBeReadBack) {
  CheckpointSaver saver(place_of(folder(), 0, 1), sample_tensors());
  TrainingState state = state_at(1);
  state.more = {{"loss", std::numeric_limits<double>::infinity()}};
  EXPECT_FALSE(saver.begin(state, copy_of(0, 1, 1)));
  state = state_at(1);
  state.optimizer = "\xff";
  EXPECT_FALSE(saver.begin(state, copy_of(0, 1, 1)));
  EXPECT_FALSE(saver.begin(state_at(-1), copy_of(0, 1, -1)));
  SaverContext place = place_of(folder(), 0, 1);
  place.attempt = "../a";
  EXPECT_FALSE(CheckpointSaver(place, sample_tensors()).begin(state_at(1), copy_of(0, 1, 1)));
}

TEST_F(Saver, SavesAStepOnce) {
  CheckpointSaver saver(place_of(folder(), 0, 1), sample_tensors());
  ASSERT_TRUE(saver.begin(state_at(1), copy_of(0, 1, 1)));
  ASSERT_TRUE(saver.wait());
  fs::remove_all(folder() / "step-1");
  ASSERT_TRUE(saver.begin(state_at(1), copy_of(0, 1, 1)));
  EXPECT_TRUE(saver.finished());
  EXPECT_TRUE(saver.wait());
  EXPECT_TRUE(names_in(folder()).empty());
}

TEST_F(Saver, ReplacesACheckpointThatAKilledStartLeftDamaged) {
  ASSERT_TRUE(save(folder(), 3, 2));
  fs::resize_file(folder() / "step-3" / "rank-0-of-2.state", 100);
  ASSERT_TRUE(save(folder(), 3, 3, {}, "a2"));
  EXPECT_TRUE(holds(*newest_good(folder(), 1).checkpoint, 3));
  EXPECT_EQ(names_in(folder()), std::vector<std::string>{"step-3"});
  EXPECT_EQ(names_in(folder() / "step-3").size(), 4u);
}

TEST_F(Saver, NeverTakesAFileOfAnotherStart) {
  // A killed start had finished rank 1's file of the same step, with other numbers.
  CheckpointSaver killed(place_of(folder(), 1, 2), sample_tensors());
  ASSERT_TRUE(killed.begin(state_at(4), copy_of(1, 2, 99)));
  ASSERT_TRUE(killed.wait());
  ASSERT_TRUE(fs::exists(staging(4) / "rank-1-of-2.state"));
  ASSERT_TRUE(save(folder(), 4, 2, {}, "a2"));
  EXPECT_TRUE(holds(*newest_good(folder(), 1).checkpoint, 4));
  EXPECT_EQ(names_in(folder()), std::vector<std::string>{"step-4"});
}

TEST_F(Saver, KeepsAsManyAsAskedForAndNoOtherStart) {
  for (const std::int64_t step : {5, 10, 15, 100}) ASSERT_TRUE(save(folder(), step, 2));
  const auto saved = save(folder(), 20, 2, 2, "a2");  // it resumed from 15; 100 is of another life
  ASSERT_TRUE(saved);
  EXPECT_EQ(saved->removed, (std::vector<fs::path>{folder() / "step-5", folder() / "step-10"}));
  EXPECT_EQ(names_in(folder()), (std::vector<std::string>{"step-100", "step-15", "step-20"}));
  ASSERT_TRUE(save(folder(), 21, 1, 1));
  EXPECT_EQ(names_in(folder()), (std::vector<std::string>{"step-100", "step-21"}));
}

TEST_F(Saver, LeavesNothingOfKilledSavesAndRemovalsWhenAsked) {
  ASSERT_TRUE(save(folder(), 1, 1));
  for (const char* name : {".step-2.partial-a0", ".step-9.partial-zz", ".step-1.removed"})
    fs::create_directories(folder() / name / "within");
  fs::create_directories(folder() / "step-7");  // no manifest: not ours to remove, and no checkpoint
  remove_leftovers(folder());
  EXPECT_EQ(names_in(folder()), (std::vector<std::string>{"step-1", "step-7"}));
  EXPECT_EQ(find_checkpoints(folder()).size(), 1u);
}

// Saves step after step on three ranks and keeps two, until it is killed.
[[noreturn]] void save_for_ever(const fs::path& folder, std::int64_t step, const std::string& attempt) {
  while (true)
    if (!save(folder, ++step, 3, 2, attempt)) ::_exit(1);
}

TEST_F(Saver, KilledAtAnyMomentLeavesANewestThatIsWhole) {
  std::mt19937 random(5);
  std::int64_t step = 1;
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(save(folder(), step, 3));
  const std::chrono::duration<double> one_save = std::chrono::steady_clock::now() - start;
  int leftovers = 0;
  for (int round = 0; round < 50; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) save_for_ever(folder(), step, "a" + std::to_string(round));
    std::this_thread::sleep_for(one_save * (static_cast<double>(random() % 1000) / 300));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it failed by itself";
    const auto found = newest_good(folder(), 1);
    EXPECT_TRUE(found.passed_over.empty());
    ASSERT_TRUE(found.checkpoint);
    EXPECT_GE(found.checkpoint->state().step, step);
    step = found.checkpoint->state().step;
    EXPECT_TRUE(holds(*found.checkpoint, step));
    leftovers += std::ranges::any_of(names_in(folder()), [](const std::string& name) { return name[0] == '.'; });
    remove_leftovers(folder());
  }
  EXPECT_GT(step, 1);
  EXPECT_GT(leftovers, 0);                              // some were killed within a save
  ASSERT_TRUE(save(folder(), step + 1, 3, 2, "last"));  // which removes what was killed before it was removed
  EXPECT_EQ(names_in(folder()).size(), 2u);
}

}  // namespace
}  // namespace muster::checkpoint
