#include "sweep/file_ledger.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "system/files.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::sweep {
namespace {

Suggestion suggestion(double x) { return {{{"x", Value(x)}}, std::nullopt}; }

struct FileLedgerTest : ::testing::Test {
  FileLedgerTest() { EXPECT_TRUE(folder.prepare()); }

  static RunningTrial begin(FileLedger& ledger, double x) {
    auto begun = ledger.begin([x](const TrialList&) { return std::optional(suggestion(x)); });
    EXPECT_TRUE(begun && *begun) << (begun ? "no trial" : begun.error().what);
    return **begun;
  }
  static Observation end_of(const RunningTrial& trial, double score) {
    return {trial.trial, trial.settings, score, 1.5, false, ""};
  }

  testing::ScratchFolder scratch;
  SweepFolder folder{scratch.path(), "s"};
};

TEST_F(FileLedgerTest, TellsAnotherLedgerOfTheSameFolderEverything) {
  FileLedger one(folder), other(folder);
  const RunningTrial first = begin(one, 1), second = begin(other, 2);
  EXPECT_EQ(first.trial, "s.r.0");
  EXPECT_EQ(second.trial, "s.r.1");
  ASSERT_TRUE(one.finish(end_of(first, 0.5)));
  const auto seen = other.trials();
  ASSERT_TRUE(seen);
  ASSERT_EQ(seen->finished.size(), 1u);
  EXPECT_EQ(seen->finished[0], end_of(first, 0.5));
  ASSERT_EQ(seen->running.size(), 1u);
  EXPECT_FALSE(seen->running[0].elsewhere);
  const auto by_one = one.trials();
  ASSERT_TRUE(by_one && by_one->running.size() == 1);
  EXPECT_TRUE(by_one->running[0].elsewhere);
}

TEST_F(FileLedgerTest, BeginsATrialAgainWhoseProcessIsGone) {
  {
    FileLedger gone(folder);
    begin(gone, 1);
  }
  FileLedger ledger(folder);
  const auto trials = ledger.trials();
  ASSERT_TRUE(trials);
  EXPECT_TRUE(trials->running.empty());
  const RunningTrial again = begin(ledger, 7);
  EXPECT_EQ(again.trial, "s.r.0");
  EXPECT_EQ(again.settings, suggestion(1).settings);
  EXPECT_FALSE(again.elsewhere);
  EXPECT_EQ(begin(ledger, 7).trial, "s.r.1");
}

TEST_F(FileLedgerTest, BeginsNothingAgainWhenNothingIsToBegin) {
  {
    FileLedger gone(folder);
    begin(gone, 1);
  }
  FileLedger ledger(folder);
  const auto none = ledger.begin([](const TrialList&) { return std::optional<Suggestion>(); });
  ASSERT_TRUE(none);
  EXPECT_FALSE(*none);
}

TEST_F(FileLedgerTest, TakesATrialForFailedThatEndsItsProcessAgainAndAgain) {
  for (int attempt = 0; attempt < FileLedger::most_attempts; ++attempt) {
    FileLedger gone(folder);
    EXPECT_EQ(begin(gone, 1).trial, "s.r.0");
  }
  FileLedger ledger(folder);
  EXPECT_EQ(begin(ledger, 2).trial, "s.r.1");
  const auto trials = ledger.trials();
  ASSERT_TRUE(trials && trials->finished.size() == 1);
  EXPECT_TRUE(trials->finished[0].failed());
  EXPECT_EQ(trials->finished[0].reason, "its process ended 3 times before it did");
}

TEST_F(FileLedgerTest, DoesNotCountATrialThatWasLeftInGoodOrder) {
  for (int attempt = 0; attempt < 2 * FileLedger::most_attempts; ++attempt) {
    FileLedger ledger(folder);
    EXPECT_EQ(begin(ledger, 1).trial, "s.r.0");
    ASSERT_TRUE(ledger.leave("s.r.0"));
  }
}

TEST_F(FileLedgerTest, CutsOffALineThatWasNeverFinished) {
  FileLedger ledger(folder);
  ASSERT_TRUE(ledger.finish(end_of(begin(ledger, 1), 0.5)));
  std::ofstream(folder.observations(), std::ios::app) << R"({"trial":"s.r.1","para)";
  ASSERT_TRUE(ledger.finish(end_of(begin(ledger, 2), 0.25)));
  const auto read = read_observations_file(folder);
  ASSERT_TRUE(read) << read.error().what;
  ASSERT_EQ(read->size(), 2u);
  EXPECT_EQ((*read)[1].score, 0.25);
}

TEST_F(FileLedgerTest, ForgetsAFileOfATrialThatHasEnded) {
  FileLedger ledger(folder);
  const RunningTrial trial = begin(ledger, 1);
  const auto text = read_file(folder.running(trial.trial));
  ASSERT_TRUE(text && ledger.finish(end_of(trial, 0.5)));
  ASSERT_TRUE(write_file_atomically(folder.running(trial.trial), *text));  // as if killed before it was removed
  FileLedger other(folder);
  EXPECT_EQ(begin(other, 2).trial, "s.r.1");
  EXPECT_FALSE(std::filesystem::exists(folder.running(trial.trial)));
}

TEST_F(FileLedgerTest, ForgetsWhatAnAttemptToldThatWasCutOff) {
  {
    FileLedger gone(folder);
    const RunningTrial trial = begin(gone, 1);
    ASSERT_TRUE(gone.report({trial.trial, 1, 9.0}));
  }
  FileLedger ledger(folder);
  const RunningTrial again = begin(ledger, 1), other = begin(ledger, 2);
  ASSERT_TRUE(ledger.report({other.trial, 1, 4.0}));
  const auto reports = ledger.report({again.trial, 1, 3.0});
  ASSERT_TRUE(reports && reports->size() == 2);
  EXPECT_EQ((*reports)[0].score, 4.0);
  EXPECT_EQ((*reports)[1].score, 3.0);
}

TEST_F(FileLedgerTest, GoesOnCountingSeconds) {
  ASSERT_TRUE(write_file_atomically(folder.seconds(), "100.5\n"));
  EXPECT_GE(FileLedger(folder).seconds(), 100.5);
}

TEST(SweepName, IsOneThatAFolderCanHave) {
  EXPECT_TRUE(check_sweep_name("lr-2.b_1"));
  for (const char* name : {"", ".hidden", "../up", "a/b", "-x", "a b"}) EXPECT_FALSE(check_sweep_name(name)) << name;
  EXPECT_FALSE(check_sweep_name(std::string(101, 'a')));
}

}  // namespace
}  // namespace muster::sweep
