#include "job/generate/line_output.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include "system/files.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::job {
namespace {

class LineOutputTest : public ::testing::Test {
 protected:
  std::string path() const { return (folder_.path() / "out.jsonl").string(); }
  std::string text() const { return read_file(path()).value(); }

  testing::ScratchFolder folder_;
};

TEST_F(LineOutputTest, WhatAFileHeldStaysUntilTheFirstLineCanCome) {
  folder_.write("out.jsonl", "of an earlier run\n");
  auto output = LineOutput::open(path());
  ASSERT_TRUE(output);
  EXPECT_EQ(text(), "of an earlier run\n");
  ASSERT_TRUE(output->begin());
  EXPECT_EQ(text(), "");
  ASSERT_TRUE(output->append("a\nb\n"));
  EXPECT_EQ(text(), "a\nb\n");
}

TEST_F(LineOutputTest, ANewFileThatNeverBeginsGoesAgain) {
  { ASSERT_TRUE(LineOutput::open(path())); }
  EXPECT_FALSE(std::filesystem::exists(path()));
  {
    auto output = LineOutput::open(path());
    ASSERT_TRUE(output && output->begin());
  }
  EXPECT_TRUE(std::filesystem::exists(path()));
}

TEST_F(LineOutputTest, AFileThatCannotTakeAllOfItKeepsWholeLinesOnly) {
  // A limit on the size of files stands for a full disk: part of a write succeeds, the rest does not.
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto ignored = ::signal(SIGXFSZ, SIG_IGN);
  auto output = LineOutput::open(path());
  ASSERT_TRUE(output && output->begin());
  ASSERT_TRUE(output->append("first\n"));
  const rlimit full{17, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &full);
  const auto written = output->append("second\nthird, too long\n");
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, ignored);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().kind, Error::Kind::failed);
  EXPECT_EQ(text(), "first\nsecond\n");
}

TEST_F(LineOutputTest, AFolderThatIsMissingIsToldWithHowToMakeIt) {
  const auto output = LineOutput::open((folder_.path() / "no" / "out.jsonl").string());
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().kind, Error::Kind::bad_input);
  EXPECT_EQ(output.error().remedy, "mkdir -p " + (folder_.path() / "no").string());
}

}  // namespace
}  // namespace muster::job
