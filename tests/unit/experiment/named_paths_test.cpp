#include "experiment/named_paths.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "testing/scratch_folder.hpp"

namespace muster::experiment {
namespace {

struct NamedPaths : ::testing::Test {
  NamedPaths() {
    std::ofstream(there) << "{}\n";
    spec.stage(StageKind::generate).wanted = false;
    spec.families = {{"small", {{"model.path", "builtin:llama-0.2m", "file:3"}}, "file:3"}};
    DataSet data;
    data.name = "sums";
    data.settings = {{"data.path", there, "file:5"}};
    spec.datasets = {data};
  }
  const testing::ScratchFolder scratch;
  const std::string there = (scratch.path() / "data.jsonl").string();
  const std::string missing = (scratch.path() / "no-such-file").string();
  ExperimentSpec spec;
};

TEST_F(NamedPaths, ThatAreThereAreNoProblem) {
  spec.families.push_back({"named", {{"model.path", "Qwen/Qwen2.5-0.5B", ""}}, ""});
  spec.stage(StageKind::evaluate).command = {"sh", "-c", "true"};
  EXPECT_EQ(missing_paths(spec), std::vector<Problem>());
}

TEST_F(NamedPaths, ThatAreMissingAreAllNamedWithTheirPlace) {
  spec.families.push_back({"lost", {{"model.path", missing, "file:4"}}, "file:4"});
  spec.datasets[0].settings[0].value = missing;
  spec.stage(StageKind::evaluate).command = {"no-such-program-anywhere", "--x"};
  spec.stage(StageKind::evaluate).where = "file:9";
  const auto problems = missing_paths(spec);
  ASSERT_EQ(problems.size(), 3u);
  EXPECT_EQ(problems[0].where, "file:4");
  EXPECT_EQ(problems[1].where, "file:5");
  EXPECT_EQ(problems[2].where, "file:9");
  EXPECT_NE(problems[2].what.find("no-such-program-anywhere"), std::string::npos);
}

TEST_F(NamedPaths, ThatAreKnownLaterAreNotLookedFor) {
  spec.datasets[0].settings[0].value = "${folder}/data.jsonl";
  spec.stage(StageKind::train).command = {"${folder}/train.sh"};
  EXPECT_EQ(missing_paths(spec), std::vector<Problem>());
}

}  // namespace
}  // namespace muster::experiment
