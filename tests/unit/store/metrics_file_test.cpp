#include "store/metrics_file.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <limits>
#include <random>

#include "system/files.hpp"
#include "testing/contains.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::store {
namespace {

using testing::contains;

class Metrics : public ::testing::Test {
 protected:
  MetricsFile create() { return std::move(MetricsFile::create(path_, {"loss", "eval_loss"})).value(); }
  std::string text() const { return read_file(path_).value(); }
  void add(MetricsFile& file, std::int64_t step, double loss) {
    const std::vector<Measured> measured{{"loss", loss}};
    const auto appended = file.append(step, measured);
    ASSERT_TRUE(appended) << appended.error().what;
  }
  void tear(std::string_view torn) const { std::ofstream(path_, std::ios::app | std::ios::binary) << torn; }

  const testing::ScratchFolder scratch_;
  const std::filesystem::path path_ = scratch_.path() / "metrics.csv";
};

TEST_F(Metrics, HasAHeaderAndARowForEachStep) {
  MetricsFile file = create();
  add(file, 1, 0.5);
  const std::vector<Measured> both{{"eval_loss", 0.125}, {"loss", 0.25}};
  ASSERT_TRUE(file.append(2, both));
  EXPECT_EQ(text(), "step,loss,eval_loss\n1,0.5,\n2,0.25,0.125\n");
}

TEST_F(Metrics, ReadsEveryNumberBackBitForBit) {
  std::mt19937_64 chance(7);
  std::vector<double> numbers{0.0, -0.0, 0.1, 1e-310, std::numeric_limits<double>::infinity(), 1e300, 5120, 0.1f};
  for (int i = 0; i < 2000; ++i) {
    const auto number = std::bit_cast<double>(chance());
    if (!std::isnan(number)) numbers.push_back(number);
  }
  MetricsFile file = create();
  for (std::size_t i = 0; i < numbers.size(); ++i) add(file, static_cast<std::int64_t>(i), numbers[i]);
  const auto table = read_metrics(path_);
  ASSERT_TRUE(table) << table.error().what;
  ASSERT_EQ(table->steps.size(), numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i)
    EXPECT_EQ(std::bit_cast<std::uint64_t>(*table->find("loss")->cells[i]), std::bit_cast<std::uint64_t>(numbers[i]));
}

TEST_F(Metrics, KeepsNotANumber) {
  MetricsFile file = create();
  add(file, 1, std::nan(""));
  EXPECT_TRUE(std::isnan(*read_metrics(path_)->last("loss")));
}

TEST_F(Metrics, RefusesAStepThatItHas) {
  MetricsFile file = create();
  add(file, 3, 1.0);
  const std::vector<Measured> measured{{"loss", 1.0}};
  const auto again = file.append(3, measured);
  ASSERT_FALSE(again);
  EXPECT_TRUE(contains(again.error().what, "step 3 was reported", "has step 3 already"));
  EXPECT_EQ(text(), "step,loss,eval_loss\n3,1,\n");
}

TEST_F(Metrics, FillsTheLastRowWithWhatIsMeasuredAfterIt) {
  MetricsFile file = create();
  add(file, 1, 0.5);
  add(file, 2, 0.25);
  const std::vector<Measured> evaluation{{"eval_loss", 0.75}};
  ASSERT_TRUE(file.fill(2, evaluation));
  EXPECT_FALSE(file.fill(1, evaluation));
  add(file, 3, 0.125);
  EXPECT_EQ(text(), "step,loss,eval_loss\n1,0.5,\n2,0.25,0.75\n3,0.125,\n");
}

TEST_F(Metrics, ReplacesWhatIsMeasuredAgain) {
  MetricsFile file = create();
  add(file, 1, 0.5);
  add(file, 2, 0.25);
  for (const double value : {0.75, 0.75, 0.123456789012345, 0.5}) {  // as long, longer, shorter
    const std::vector<Measured> evaluation{{"eval_loss", value}};
    ASSERT_TRUE(file.fill(2, evaluation));
    EXPECT_EQ(file.last_cell("eval_loss"), value);
    EXPECT_EQ(read_metrics(path_)->last("eval_loss"), value);
  }
  add(file, 3, 0.125);
  EXPECT_EQ(text(), "step,loss,eval_loss\n1,0.5,\n2,0.25,0.5\n3,0.125,\n");
}

TEST_F(Metrics, FillsTheLastRowOfARunThatGoesOn) {
  {
    MetricsFile file = create();
    add(file, 1, 0.5);
  }
  auto file = MetricsFile::open(path_);
  ASSERT_TRUE(file) << file.error().what;
  const std::vector<Measured> evaluation{{"eval_loss", 0.75}};
  ASSERT_TRUE(file->fill(1, evaluation));
  EXPECT_EQ(text(), "step,loss,eval_loss\n1,0.5,0.75\n");
}

TEST_F(Metrics, ATornLastLineIsNoRow) {
  {
    MetricsFile file = create();
    add(file, 1, 0.5);
  }
  for (const std::string_view torn : {"2", "2,0.2", "2,0.25,", "2,0.25,0.7"}) {
    tear(torn);
    const auto table = read_metrics(path_);
    ASSERT_TRUE(table) << table.error().what;
    EXPECT_EQ(table->steps, std::vector<std::int64_t>{1});
    auto file = MetricsFile::open(path_);
    ASSERT_TRUE(file) << file.error().what;
    EXPECT_EQ(file->last_step(), 1);
    EXPECT_EQ(text(), "step,loss,eval_loss\n1,0.5,\n");
  }
}

TEST_F(Metrics, GoesBackToTheStepOfACheckpoint) {
  MetricsFile file = create();
  for (int step = 1; step <= 9; ++step) add(file, step, 1.0 / step);
  tear("10,0.");
  ASSERT_TRUE(file.go_back_to(4));
  EXPECT_EQ(file.last_step(), 4);
  add(file, 5, 0.5);
  EXPECT_EQ(text(), "step,loss,eval_loss\n1,1,\n2,0.5,\n3,0.3333333333333333,\n4,0.25,\n5,0.5,\n");
}

TEST_F(Metrics, GoesBackToTheBeginning) {
  MetricsFile file = create();
  add(file, 1, 1.0);
  ASSERT_TRUE(file.go_back_to(0));
  EXPECT_FALSE(file.last_step());
  add(file, 1, 2.0);
  EXPECT_EQ(text(), "step,loss,eval_loss\n1,2,\n");
}

TEST_F(Metrics, TellsWhenACheckpointIsNewerThanItsRows) {
  MetricsFile file = create();
  add(file, 3, 1.0);
  ASSERT_TRUE(file.go_back_to(5));
  EXPECT_EQ(file.last_step(), 3);
}

TEST_F(Metrics, NeverHasMoreThanOneTornLineWhenItsWriterIsKilled) {
  const pid_t writer = ::fork();
  if (writer == 0) {
    MetricsFile file = create();
    const std::vector<Measured> measured{{"loss", 1.0 / 3}, {"eval_loss", 1.0 / 7}};
    for (std::int64_t step = 1; file.append(step, measured);) ++step;
    ::_exit(1);
  }
  std::error_code not_yet;
  while (!std::filesystem::exists(path_) || std::filesystem::file_size(path_, not_yet) < 20000) ::usleep(100);
  ::kill(writer, SIGKILL);
  ::waitpid(writer, nullptr, 0);
  const auto table = read_metrics(path_);
  ASSERT_TRUE(table) << table.error().what;
  EXPECT_GT(table->steps.size(), 10u);
  for (std::size_t i = 0; i < table->steps.size(); ++i) {
    ASSERT_EQ(table->steps[i], static_cast<std::int64_t>(i) + 1);
    ASSERT_EQ(table->find("eval_loss")->cells[i], 1.0 / 7);
  }
}

TEST_F(Metrics, ReadsTheLastRowOfALongFile) {
  MetricsFile file = create();
  for (int step = 1; step <= 20000; ++step) add(file, step, 1.0 / step);
  tear("20001,");
  ASSERT_GT(text().size(), 300000u);
  const auto table = read_last_metrics(path_);
  ASSERT_TRUE(table) << table.error().what;
  EXPECT_EQ(table->steps, std::vector<std::int64_t>{20000});
  EXPECT_EQ(table->last("loss"), 1.0 / 20000);
}

TEST(MetricsTable, TakesColumnsThatItDoesNotKnowAndStepsAnywhere) {
  const auto table = parse_metrics("loss,reward,step\r\n1,2,3\r\n", "metrics.csv");
  ASSERT_TRUE(table) << table.error().what;
  EXPECT_EQ(table->steps, std::vector<std::int64_t>{3});
  EXPECT_EQ(table->last("reward"), 2.0);
}

TEST(MetricsTable, NamesTheLineThatIsNoRow) {
  const auto problem = [](std::string_view text) { return parse_metrics(text, "metrics.csv").error().what; };
  EXPECT_TRUE(contains(problem(""), "metrics.csv:1: no header"));
  EXPECT_TRUE(contains(problem("loss\n1\n"), "metrics.csv:1: no column \"step\""));
  EXPECT_TRUE(contains(problem("step,loss\n1,2\n2\n"), "metrics.csv:3: 1 cells where 2 columns are"));
  EXPECT_TRUE(contains(problem("step,loss\n2,1\n2,1\n"), "metrics.csv:3: step 2 after step 2"));
  EXPECT_TRUE(contains(problem("step,loss\n1,high\n"), "metrics.csv:2: loss is \"high\", not a number"));
  EXPECT_TRUE(contains(problem("step,loss\nx,1\n"), "metrics.csv:2: \"x\" is not a step"));
}

}  // namespace
}  // namespace muster::store
