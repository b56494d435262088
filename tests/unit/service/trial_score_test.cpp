#include "service/trial_score.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "testing/scratch_folder.hpp"

namespace muster::service {
namespace {

TEST(TrialScore, IsWhatALineOfOutputSays) {
  EXPECT_EQ(metric_of_line(R"( {"step": 3, "loss": 0.5} )", "loss"), 0.5);
  EXPECT_EQ(metric_of_line("loss=-1e-3\r", "loss"), -1e-3);
  for (const char* line : {"loss", "loss=", "loss=low", "my loss=3", R"({"loss": "low"})", R"({"other": 3})", "{"})
    EXPECT_FALSE(metric_of_line(line, "loss")) << line;
}

TEST(TrialScore, OfATrialThatDivergedIsNotTheOneBefore) {
  const testing::ScratchFolder folder;
  const std::string output = R"({"loss": 0.5})"
                             "\n"
                             R"({"note": "NaN \" {", "loss": NaN})"
                             "\n";
  EXPECT_TRUE(std::isnan(*score_of_command(folder.path(), output, "loss")));
  EXPECT_TRUE(std::isinf(*metric_of_line(R"({"loss": -Infinity, "step": 3})", "loss")));
  EXPECT_EQ(metric_of_line(R"({"other": NaN, "loss": 2})", "loss"), 2);
  std::ofstream(folder.path() / "result.json") << R"({"loss": NaN})";
  EXPECT_TRUE(std::isnan(*score_of_command(folder.path(), "loss=1\n", "loss")));
}

TEST(TrialScore, IsTheLastOneThatIsPrinted) {
  const testing::ScratchFolder folder;
  EXPECT_EQ(*score_of_command(folder.path(), "loss=1\nloss=2\nthe end\n", "loss"), 2);
  EXPECT_FALSE(score_of_command(folder.path(), "nothing\n", "loss"));
  std::ofstream(folder.path() / "result.json") << R"({"loss": 7})";
  EXPECT_EQ(*score_of_command(folder.path(), "loss=1\n", "loss"), 7);
}

TEST(TrialReports, AreReadOnceEachAndOnlyWhenTheirLineIsWhole) {
  const testing::ScratchFolder folder;
  ReportReader reader(folder.path() / "reports.jsonl", "loss");
  EXPECT_TRUE(reader.next().empty());
  std::ofstream file(folder.path() / "reports.jsonl");
  file << "{\"step\": 1, \"score\": 0.5}\nnonsense\n{\"step\": 2, \"lo" << std::flush;
  auto told = reader.next();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].step, 1);
  file << "ss\": 0.25}\n" << std::flush;
  told = reader.next();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].step, 2);
  EXPECT_EQ(told[0].score, 0.25);
}

}  // namespace
}  // namespace muster::service
