#include "experiment/job_folder.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "system/sha256.hpp"
#include "experiment/experiment_file.hpp"
#include "experiment/stage_command.hpp"
#include "experiment/variables.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::experiment {
namespace {

void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

class JobFolderOf : public ::testing::Test {
 protected:
  JobFolderOf() { std::filesystem::create_directories(folder_.path()); }

  static ExperimentSpec all_stages() {
    return read_experiment(
               "experiment: {name: x}\nalgorithms: {sft: {training.max_steps: 3}}\nfamilies: {a: builtin:llama-0.6m}\n"
               "datasets: {d: {data.path: builtin:arithmetic, prompts: p.jsonl}}\ngenerate: muster\n",
               "x.yaml")
        .value();
  }
  JobStatus status() const { return progress_of(spec_, folder_).value().status; }
  void done(StageKind kind) const {
    StageRecord record;
    record.done = true;
    ASSERT_TRUE(folder_.write(kind, record));
  }

  testing::ScratchFolder scratch_;
  ExperimentSpec spec_ = all_stages();
  JobFolder folder_{scratch_.path(), {"sft_a_d_r1"}};
};

TEST_F(JobFolderOf, TellsHowFarTheJobIs) {
  EXPECT_EQ(status(), JobStatus::not_started);
  write(folder_.data(), "half of it");
  EXPECT_EQ(status(), JobStatus::not_started);
  done(StageKind::generate);
  EXPECT_EQ(status(), JobStatus::data_generated);
  done(StageKind::evaluate);  // of another day: what comes before it is missing
  EXPECT_EQ(status(), JobStatus::data_generated);
  done(StageKind::train);
  EXPECT_EQ(status(), JobStatus::eval_completed);
  EXPECT_EQ(progress_of(spec_, folder_).value().done, 3u);
}

TEST_F(JobFolderOf, TellsOfFailureUntilTheStageBeginsAgain) {
  done(StageKind::generate);
  StageRecord failed;
  failed.reason = "exit status 7";
  ASSERT_TRUE(folder_.write(StageKind::train, failed));
  EXPECT_EQ(status(), JobStatus::failed);
  EXPECT_EQ(progress_of(spec_, folder_).value().reason, "train: exit status 7");
  folder_.forget(StageKind::train);
  EXPECT_EQ(status(), JobStatus::data_generated);
}

TEST_F(JobFolderOf, NamesAFileThatIsDamaged) {
  write(folder_.path() / "generate.json", "{\"status\": \"do");
  const auto progress = progress_of(spec_, folder_);
  ASSERT_FALSE(progress);
  EXPECT_NE(progress.error().what.find("generate.json is damaged"), std::string::npos);
}

TEST_F(JobFolderOf, RemembersWhatTheJobBeganWith) {
  EXPECT_FALSE(folder_.read_start().value());
  const StartRecord start{"/m", "abc", 3}, bare{"name", std::nullopt, 0};
  ASSERT_TRUE(folder_.write_start(start));
  EXPECT_EQ(folder_.read_start().value(), start);
  ASSERT_TRUE(folder_.write_start(bare));
  EXPECT_EQ(folder_.read_start().value(), bare);
}

TEST_F(JobFolderOf, GivesOwnStagesTheirModelDataAndDevice) {
  const std::vector<ExperimentJob> jobs = jobs_of(spec_, 2).value();
  const auto words = [&](StageKind kind, bool is_trained, int gpus) {
    const auto command = stage_command(spec_, jobs[0], kind, folder_, {"muster", "/m", is_trained, gpus});
    std::string line;
    for (const std::string& word : command.value()) line += word + " ";
    return line;
  };
  const auto has = [](const std::string& line, const std::string& word) {
    return line.find(word + " ") != std::string::npos;
  };
  const std::string train = words(StageKind::train, false, 2);
  EXPECT_TRUE(train.starts_with("muster train "));
  for (const std::string& word :
       {std::string("model.path=/m"), std::string("training.max_steps=3"), std::string("distributed.device=cuda"),
        "data.path=" + folder_.data().string(), std::string("experiment.resume=auto")})
    EXPECT_TRUE(has(train, word)) << word << " in " << train;
  EXPECT_FALSE(has(train, "model.init=checkpoint"));
  EXPECT_TRUE(has(words(StageKind::train, true, 0), "model.init=checkpoint"));
  EXPECT_TRUE(has(words(StageKind::train, true, 0), "distributed.device=cpu"));
  EXPECT_TRUE(has(words(StageKind::generate, true, 1), "-p p.jsonl"));
  const std::string evaluate = words(StageKind::evaluate, true, 1);
  EXPECT_TRUE(has(evaluate, "data.path=builtin:arithmetic"));  // its own, not what was generated
  EXPECT_FALSE(has(evaluate, "training.max_steps=3"));
}

TEST(WeightsDigest, IsThatOfTheOneFileOfWeights) {
  const testing::ScratchFolder scratch;
  write(scratch.path() / "m/model.safetensors", "weights");
  const std::string digest = digest_of_weights(scratch.path() / "m").value();
  EXPECT_EQ(digest, sha256_of_file(scratch.path() / "m/model.safetensors").value());
  write(scratch.path() / "m/config.json", "{}");
  EXPECT_EQ(digest_of_weights(scratch.path() / "m").value(), digest);
  write(scratch.path() / "m/model-2.safetensors", "");
  EXPECT_NE(digest_of_weights(scratch.path() / "m").value(), digest);
  EXPECT_FALSE(digest_of_weights(scratch.path() / "none"));
}

TEST(Variables, AreReplacedAndUnknownOnesRefused) {
  EXPECT_EQ(replace_variables("a ${job}/${round} $${job} $x", {{"job", "j"}, {"round", "2"}}).value(),
            "a j/2 ${job} $x");
  EXPECT_EQ(variables_in("${model} ${model} ${data}").value(), (std::set<std::string>{"data", "model"}));
  EXPECT_FALSE(variables_in("${mode"));
  EXPECT_EQ(variables_in("${modle}").error().remedy, "did you mean ${model}?");
}

}  // namespace
}  // namespace muster::experiment
