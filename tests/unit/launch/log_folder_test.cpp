#include "launch/log_folder.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "testing/contains.hpp"
#include "testing/environment_variable.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::launch {
namespace {

namespace fs = std::filesystem;
using testing::contains;
using testing::EnvironmentVariable;

StreamChoice choice(std::string_view text) { return StreamChoice::parse(text).value(); }

class LogFolderTest : public ::testing::Test {
 protected:
  LogOptions options() const {
    LogOptions options;
    options.folder = scratch_.path() / "logs";
    return options;
  }
  AttemptLogs begin(const LogOptions& options, int ranks) {
    folder_ = LogFolder::create(options, "run").value();
    return folder_.begin_attempt(0, ranks).value();
  }
  const testing::ScratchFolder scratch_;
  LogFolder folder_;
};

TEST_F(LogFolderTest, IsNamedAfterTheRunAndSomethingRandom) {
  const auto first = LogFolder::create(options(), "job-7");
  const auto second = LogFolder::create(options(), "job-7");
  ASSERT_TRUE(first && second);
  EXPECT_NE(*first->folder(), *second->folder());
  EXPECT_EQ(first->folder()->parent_path(), scratch_.path() / "logs");
  EXPECT_TRUE(first->folder()->filename().string().starts_with("job-7_"));
  struct stat status {};
  ASSERT_EQ(::stat(first->folder()->c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0700U);
}

TEST_F(LogFolderTest, MakesFoldersAboveIt) {
  LogOptions deep = options();
  deep.folder = scratch_.path() / "a/b/c";
  EXPECT_TRUE(LogFolder::create(deep, "run"));
  EXPECT_TRUE(fs::is_directory(scratch_.path() / "a/b/c"));
}

TEST_F(LogFolderTest, HasAnAbsolutePathWhateverWasTyped) {
  LogOptions relative = options();
  relative.folder = fs::relative(scratch_.path() / "logs");
  const auto folder = LogFolder::create(relative, "run");
  ASSERT_TRUE(folder);
  EXPECT_TRUE(folder->folder()->is_absolute());
}

TEST_F(LogFolderTest, RefusesAFileInItsPlace) {
  LogOptions file = options();
  file.folder = scratch_.write("taken", "text");
  const auto folder = LogFolder::create(file, "run");
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().kind, Error::Kind::bad_input);
  EXPECT_TRUE(contains(folder.error().what, file.folder->string(), "is a file"));
  EXPECT_TRUE(contains(folder.error().remedy, "--log-dir"));
}

TEST_F(LogFolderTest, SaysWhyItCannotBeMade) {
  LogOptions below_file = options();
  below_file.folder = scratch_.write("taken", "text") / "logs";
  const auto folder = LogFolder::create(below_file, "run");
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().kind, Error::Kind::bad_input);
  EXPECT_TRUE(contains(folder.error().what, below_file.folder->string(), "Not a directory"));
}

TEST_F(LogFolderTest, RefusesARunIdThatIsNoName) {
  for (const std::string& run_id : {std::string("a/b"), std::string(300, 'x')}) {
    const auto folder = LogFolder::create(options(), run_id);
    ASSERT_FALSE(folder);
    EXPECT_EQ(folder.error().kind, Error::Kind::bad_input);
    EXPECT_TRUE(contains(folder.error().what, run_id));
  }
}

TEST_F(LogFolderTest, LiesAmongTheTemporaryFilesWhenNoneIsNamed) {
  const EnvironmentVariable temporary("TMPDIR", scratch_.path());
  for (const std::optional<fs::path>& unnamed : {std::optional<fs::path>(), std::optional<fs::path>("")}) {
    const auto folder = LogFolder::create({.folder = unnamed}, "run");
    ASSERT_TRUE(folder);
    const fs::path root = folder->folder()->parent_path();
    EXPECT_EQ(root.parent_path(), scratch_.path());
    EXPECT_TRUE(root.filename().string().starts_with("torchelastic_"));
  }
}

TEST_F(LogFolderTest, IsTidiedAwayWhenNobodyAskedForItAndItHoldsNoFile) {
  const EnvironmentVariable temporary("TMPDIR", scratch_.path());
  auto empty = LogFolder::create({}, "run").value();
  ASSERT_TRUE(empty.begin_attempt(0, 2));
  auto used = LogFolder::create({}, "run").value();
  const auto attempt = used.begin_attempt(0, 2);
  ASSERT_TRUE(attempt);
  std::ofstream(*attempt->ranks[1].error_file) << "{}";
  auto asked_for = LogFolder::create(options(), "run").value();
  for (LogFolder* folder : {&empty, &used, &asked_for}) folder->tidy();
  EXPECT_FALSE(fs::exists(empty.folder()->parent_path()));
  EXPECT_TRUE(fs::exists(*attempt->ranks[1].error_file));
  EXPECT_TRUE(fs::exists(*asked_for.folder()));
}

TEST_F(LogFolderTest, HasAFolderForEachRankOfAnAttemptEvenWithoutRedirects) {
  const AttemptLogs logs = begin(options(), 3);
  EXPECT_EQ(*logs.folder, *folder_.folder() / "attempt_0");
  ASSERT_EQ(logs.ranks.size(), 3U);
  for (int rank = 0; rank < 3; ++rank) {
    const RankLogs& of_rank = logs.ranks[static_cast<std::size_t>(rank)];
    EXPECT_TRUE(fs::is_directory(*logs.folder / std::to_string(rank)));
    EXPECT_EQ(*of_rank.error_file, *logs.folder / std::to_string(rank) / "error.json");
    EXPECT_TRUE(!of_rank.output.file && of_rank.output.console && !of_rank.output.prefixed);
    EXPECT_TRUE(!of_rank.errors.file && of_rank.errors.console && !of_rank.errors.prefixed);
  }
}

TEST_F(LogFolderTest, EmptiesAnEarlierAttemptOfTheSameNumberAndKeepsOthers) {
  const AttemptLogs first = begin(options(), 1);
  std::ofstream(*first.folder / "0/stdout.log") << "old";
  ASSERT_TRUE(folder_.begin_attempt(1, 1));
  EXPECT_TRUE(fs::exists(*first.folder / "0/stdout.log"));
  ASSERT_TRUE(folder_.begin_attempt(0, 1));
  EXPECT_FALSE(fs::exists(*first.folder / "0/stdout.log"));
  EXPECT_TRUE(fs::is_directory(*folder_.folder() / "attempt_1/0"));
}

TEST_F(LogFolderTest, SaysWhyAnAttemptCannotBegin) {
  begin(options(), 1);
  fs::remove_all(*folder_.folder());
  const auto attempt = folder_.begin_attempt(1, 1);
  ASSERT_FALSE(attempt);
  EXPECT_TRUE(contains(attempt.error().what, "attempt_1", "No such file or directory"));
}

TEST_F(LogFolderTest, RedirectsToFilesAndNotToTheConsole) {
  LogOptions redirected = options();
  redirected.redirects = choice("0:1,1:2");
  const AttemptLogs logs = begin(redirected, 2);
  EXPECT_EQ(logs.ranks[0].output.file, *logs.folder / "0/stdout.log");
  EXPECT_FALSE(logs.ranks[0].output.console);
  EXPECT_TRUE(!logs.ranks[0].errors.file && logs.ranks[0].errors.console);
  EXPECT_EQ(logs.ranks[1].errors.file, *logs.folder / "1/stderr.log");
  EXPECT_FALSE(logs.ranks[1].errors.console);
  EXPECT_TRUE(!logs.ranks[1].output.file && logs.ranks[1].output.console);
}

TEST_F(LogFolderTest, TeesToTheFileAndWithAPrefixToTheConsole) {
  LogOptions teed = options();
  teed.tee = choice("3");
  const AttemptLogs logs = begin(teed, 1);
  EXPECT_EQ(logs.ranks[0].output.file, *logs.folder / "0/stdout.log");
  EXPECT_EQ(logs.ranks[0].errors.file, *logs.folder / "0/stderr.log");
  EXPECT_TRUE(logs.ranks[0].output.console && logs.ranks[0].output.prefixed);
  EXPECT_TRUE(logs.ranks[0].errors.console && logs.ranks[0].errors.prefixed);
}

TEST_F(LogFolderTest, KeepsRanksThatAreNotShownOffTheConsole) {
  LogOptions some = options();
  some.shown_ranks = {0};
  some.tee = choice("0:1,1:1");
  const AttemptLogs logs = begin(some, 2);
  EXPECT_TRUE(logs.ranks[0].output.console && logs.ranks[0].errors.console);
  EXPECT_EQ(logs.ranks[1].output.file, *logs.folder / "1/stdout.log");
  EXPECT_FALSE(logs.ranks[1].output.console || logs.ranks[1].output.prefixed);
  EXPECT_FALSE(logs.ranks[1].errors.file || logs.ranks[1].errors.console);
}

TEST_F(LogFolderTest, MakesAFileForFilteredLinesOnlyWhenTheyAreAskedFor) {
  LogOptions filtered = options();
  filtered.output_filters = {"loss"};
  const AttemptLogs logs = begin(filtered, 1);
  EXPECT_EQ(logs.filtered_output, *logs.folder / "filtered_stdout.log");
  EXPECT_TRUE(fs::exists(*logs.filtered_output));
  EXPECT_FALSE(logs.filtered_errors);
}

// torchrun's DefaultLogsSpecs does the same: all of redirects, tee and filter count for nothing then.
TEST_F(LogFolderTest, WritesNoFilesToTheNullDeviceAndShowsEverything) {
  LogOptions nowhere;
  nowhere.folder = "/dev/null";
  nowhere.redirects = nowhere.tee = choice("3");
  nowhere.shown_ranks = {0};
  const AttemptLogs logs = begin(nowhere, 2);
  EXPECT_FALSE(folder_.folder() || logs.folder);
  for (const RankLogs& of_rank : logs.ranks) {
    EXPECT_FALSE(of_rank.error_file || of_rank.output.file || of_rank.errors.file);
    EXPECT_TRUE(of_rank.output.console && !of_rank.output.prefixed);
    EXPECT_TRUE(of_rank.errors.console && !of_rank.errors.prefixed);
  }
}

TEST_F(LogFolderTest, RefusesFilteredFilesWithoutAFolder) {
  const auto folder = LogFolder::create({.folder = "/dev/null", .error_filters = {"x"}}, "run");
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().kind, Error::Kind::bad_input);
}

}  // namespace
}  // namespace muster::launch
