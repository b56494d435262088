#include "store/run_folder.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <set>
#include <thread>

#include "system/files.hpp"
#include "store/events_file.hpp"
#include "store/find_run.hpp"
#include "testing/contains.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::store {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::contains;

const Moment noon = *parse_timestamp("2026-08-01T12:00:00.000Z");

class Runs : public ::testing::Test {
 protected:
  RunFolder made(std::string_view name, Moment when = noon) const {
    return std::move(RunFolder::create(output_, name, when)).value().folder;
  }

  const testing::ScratchFolder scratch_;
  const fs::path output_ = scratch_.path() / "above" / "runs";
};

TEST_F(Runs, AreCalledByNameAndTime) {
  const RunFolder run = made("sums");
  EXPECT_EQ(run.name(), "sums-" + folder_time(noon));
  EXPECT_TRUE(fs::is_directory(run.logs()) && fs::is_directory(run.checkpoints()));
  EXPECT_EQ(fs::status(run.logs()).permissions(), fs::perms::owner_all) << "what ranks print is their user's alone";
  EXPECT_EQ(run.created(), noon);
  EXPECT_TRUE(run.looks_like_a_run());
}

TEST_F(Runs, OfTheSameSecondGetFoldersOfTheirOwn) {
  std::set<std::string> names;
  for (int i = 0; i < 3; ++i) names.insert(made("sums").name());
  const std::string first = "sums-" + folder_time(noon);
  EXPECT_EQ(names, (std::set<std::string>{first, first + "-2", first + "-3"}));
}

TEST_F(Runs, OfTheSameSecondInManyThreadsGetFoldersOfTheirOwn) {
  constexpr std::size_t count = 8;
  std::vector<std::string> names(count);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < count; ++i) threads.emplace_back([&, i] { names[i] = made("sums").name(); });
  }
  EXPECT_EQ(std::set(names.begin(), names.end()).size(), count);
  EXPECT_EQ(folders_in(output_).size(), count);
}

TEST_F(Runs, HaveTheFilesThatTheyAreMadeWith) {
  const std::array files{FirstFile{"identity", "abc"}};
  const auto held = RunFolder::create(output_, "sums", noon, files);
  ASSERT_TRUE(held);
  EXPECT_EQ(*read_file(held->folder.path() / "identity"), "abc");
}

TEST_F(Runs, LeaveNoStagingFolderBehind) {
  made("sums");
  EXPECT_EQ(std::distance(fs::directory_iterator(output_), fs::directory_iterator()), 1);
}

TEST_F(Runs, AreNotCalledByPathsOrHiddenNames) {
  for (const std::string_view name : {"", "../sums", ".sums", "-sums", "a b", "a/b", "sums\n", "\xFF"}) {
    const auto refused = RunFolder::create(output_, name, noon);
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().kind, Error::Kind::bad_input);
  }
  EXPECT_FALSE(fs::exists(output_));
  EXPECT_TRUE(check_run_name("Äpfel-7.x_y"));
}

TEST_F(Runs, AreLockedFromTheirFirstMomentToTheEndOfTheirHolder) {
  std::optional<HeldRun> held = std::move(RunFolder::create(output_, "sums", noon)).value();
  const RunFolder run = held->folder;
  EXPECT_TRUE(is_locked(run.path()));
  EXPECT_EQ(holder(run.path())->rfind("process " + std::to_string(::getpid()) + " on ", 0), 0u);
  const auto second = run.hold(0ms);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, Error::Kind::refused);
  EXPECT_TRUE(contains(second.error().what, "is being worked on by process"));
  held.reset();
  EXPECT_FALSE(is_locked(run.path()));
  EXPECT_TRUE(run.hold(0ms));
}

TEST_F(Runs, StayLockedWhileAProcessOfTheirHolderLives) {
  std::optional<HeldRun> held = std::move(RunFolder::create(output_, "sums", noon)).value();
  const RunFolder run = held->folder;
  const pid_t rank = ::fork();
  if (rank == 0) ::execlp("sleep", "sleep", "600", nullptr);
  held.reset();
  EXPECT_TRUE(is_locked(run.path()));
  ::kill(rank, SIGKILL);
  ::waitpid(rank, nullptr, 0);
  EXPECT_FALSE(is_locked(run.path()));
}

TEST_F(Runs, KeepTheResultOfAnEarlierAttemptUntilItIsRemoved) {
  const RunFolder run = made("sums");
  RunResult result{Ending::interrupted, 70, 0.1, {}, 0.9781, 12.5, 2, "SIGTERM"};
  ASSERT_TRUE(run.write_result(result));
  const auto read = run.read_result();
  ASSERT_TRUE(read && *read) << read.error().what;
  EXPECT_EQ((*read)->status, Ending::interrupted);
  EXPECT_EQ((*read)->steps, 70);
  EXPECT_EQ((*read)->final_loss, 0.1);
  EXPECT_EQ((*read)->exact_match, 0.9781);
  EXPECT_FALSE((*read)->eval_loss);
  EXPECT_EQ((*read)->error, "SIGTERM");
  const auto held = run.hold();
  ASSERT_TRUE(held);
  EXPECT_TRUE(*run.read_result());
  ASSERT_TRUE(run.remove_result());
  EXPECT_FALSE(*run.read_result());
  EXPECT_TRUE(run.remove_result());
}

TEST_F(Runs, KnowWhereTheyWereStartedAndHowLongTheyWorked) {
  const RunFolder run = made("sums");
  EXPECT_FALSE(read_record(run.path())->start);
  const Moment later = noon + std::chrono::hours(1);
  const RunStart start{later, "host7", "0.1.0", 2, {{4, "NVIDIA H200", "GPU-1"}, {6, "NVIDIA H200", "GPU-2"}}, 30.5};
  ASSERT_TRUE(run.write_start(start));
  const auto record = read_record(run.path());
  ASSERT_TRUE(record);
  EXPECT_EQ(*record, (RunRecord{"sums", noon, start}));
  EXPECT_EQ(run.created(), noon);
  EXPECT_EQ(run.seconds_worked(later + std::chrono::seconds(10)), 40.5);
  EXPECT_FALSE(run.seconds_worked({}));  // no event says when it was killed
  auto events = EventsFile::open(run.events());
  ASSERT_TRUE(events->append(later + std::chrono::seconds(2), "step"));
  EXPECT_EQ(run.seconds_worked({}), 32.5);
}

TEST_F(Runs, AcceptARecordWithoutAStart) {
  const RunFolder run = made("sums");
  ASSERT_TRUE(write_file_atomically(run.path() / "run.json",
                                    R"({"version": 1, "name": "sums", "created": "2026-08-01T12:00:00.000Z"})"));
  EXPECT_EQ(run.created(), noon);
  EXPECT_EQ(run.seconds_worked(noon + std::chrono::seconds(3)), 3);
}

TEST_F(Runs, HaveAResultThatSaysWhatIsWrongWithIt) {
  const RunFolder run = made("sums");
  const auto problem = [&](std::string_view text) {
    static_cast<void>(write_file_atomically(run.result(), text));
    return run.read_result().error().what;
  };
  EXPECT_TRUE(contains(problem("{"), "result.json", "invalid JSON"));
  EXPECT_TRUE(contains(problem("{}"), "status is null, not done, failed or interrupted"));
  EXPECT_TRUE(contains(problem(R"({"status": "done", "steps": "many"})"), "steps is \"many\", not a whole number"));
}

TEST_F(Runs, KnowTheirCheckpointsInOrder) {
  const RunFolder run = made("sums");
  for (const char* name : {"step-100", "step-20", ".step-300.part-x", "step-abc", "other"})
    fs::create_directory(run.checkpoints() / name);
  const auto found = checkpoint_folders(run);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].step, 20);
  EXPECT_EQ(found[1].step, 100);
}

TEST_F(Runs, AreFoundByNameBeginningPathAndAge) {
  const RunFolder older = made("sums", noon), newer = made("apples", noon + 1h);
  const auto found = [&](std::string_view which) { return find_run(output_, which)->path(); };
  EXPECT_EQ(found(older.name()), older.path());
  EXPECT_EQ(found("su"), older.path());
  EXPECT_EQ(found("latest"), newer.path());
  EXPECT_EQ(found(older.path().string() + "/"), older.path());
}

TEST_F(Runs, ThatAreNotThereAreRefusedWithTheNearestName) {
  const RunFolder run = made("arithmetic");
  made("sums", noon);
  made("sums", noon + 1h);
  const auto problem = [&](std::string_view which) { return to_string(find_run(output_, which).error()); };
  EXPECT_TRUE(contains(problem("arithmatic"), "there is no run \"arithmatic\"", "try: " + run.name()));
  EXPECT_TRUE(contains(problem("zzz"), "there is no run \"zzz\"", "muster runs lists the runs"));
  EXPECT_TRUE(contains(problem("su"), "2 runs begin with \"su\"", "sums-"));
  EXPECT_TRUE(contains(problem("./none"), "./none is not a folder"));
  EXPECT_TRUE(contains(to_string(find_run(scratch_.path() / "empty", "latest").error()), "there is no run in"));
}

TEST(Timestamp, ReadsBackWhatItWrote) {
  EXPECT_EQ(timestamp(noon), "2026-08-01T12:00:00.000Z");
  EXPECT_EQ(parse_timestamp(timestamp(noon + 1234ms)), noon + 1234ms);
  for (const std::string_view text :
       {"", "2026-08-01T12:00:00Z", "2026-13-01T12:00:00.000Z", "2026-02-30T12:00:00.000Z"})
    EXPECT_FALSE(parse_timestamp(text)) << text;
}

}  // namespace
}  // namespace muster::store
