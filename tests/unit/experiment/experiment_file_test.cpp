#include "experiment/experiment_file.hpp"

#include <gtest/gtest.h>

#include "experiment/settings.hpp"

namespace muster::experiment {
namespace {

constexpr const char* commands = R"(
experiment: {name: lab, seed: 7}
rounds_of_training: 2
algorithms: {sft: , dpo: }
families: {a: /models/a, b.5: {model: {path: /models/b, max_memory: {0: 10GiB}}}}
datasets: {d: {data.path: /d, prompts: p.jsonl, keep: right, data.operations: [+, '-']}}
generation.temperature: 0.5
generate: {gpus: 1-all, generation.samples: 4}
train: {command: [train, '${model}', '${output}'], gpus: 2, predicted: 90m, retries: 1, timeout: 2h, heartbeat: 5m}
evaluate: none
)";

ExperimentSpec read(const std::vector<std::string>& overrides = {}) {
  auto spec = read_experiment(commands, "lab.yaml", overrides);
  EXPECT_TRUE(spec) << spec.error().what;
  return std::move(*spec);
}

std::string wrong(std::string_view text, const std::vector<std::string>& overrides = {}) {
  const auto spec = read_experiment(text, "lab.yaml", overrides);
  return spec ? "" : spec.error().what;
}

TEST(ExperimentFile, SaysWhatItSays) {
  const ExperimentSpec spec = read();
  EXPECT_EQ(spec.name, "lab");
  EXPECT_EQ(spec.seed, 7);
  EXPECT_EQ(spec.families[1].name, "b.5");
  EXPECT_EQ(find(spec.families[1].settings, "model.max_memory")->value, "{\"0\": 10GiB}");
  EXPECT_EQ(find(spec.datasets[0].settings, "data.operations")->value, "['+', '-']");
  EXPECT_EQ(spec.datasets[0].keep, Keep::right);
  EXPECT_EQ(spec.stage(StageKind::generate).gpus->most(), schedule::most_gpus);
  const Stage& train = spec.stage(StageKind::train);
  EXPECT_EQ(train.gpus, schedule::GpuRequest::exactly(2));
  EXPECT_EQ(train.predicted, std::chrono::minutes(90));
  EXPECT_EQ(train.retries, 1);
  EXPECT_EQ(spec.wanted_stages(), (std::vector{StageKind::generate, StageKind::train}));
}

TEST(ExperimentFile, IsWrittenSoThatItReadsBackToTheSame) {
  const std::vector<std::string> changes{"device=cpu", "evaluate=[a, 'b \"c\"']",
                                         "datasets.d={data.path: /d, prompts: p.jsonl}"};
  for (const std::string& text : {experiment_text(read()), experiment_text(read(changes))}) {
    const auto again = read_experiment(text, "again.yaml");
    ASSERT_TRUE(again) << again.error().what << text;
    EXPECT_EQ(experiment_text(*again), text);
    EXPECT_EQ(again->settings.size(), 1u);
  }
}

TEST(ExperimentFile, IsOverruledByArguments) {
  const ExperimentSpec spec = read({"families.b.5.model.path=/other", "train.gpus=1", "rounds_of_training=5",
                                    "generation.temperature=0", "families.b.5.model.max_memory={0: 2GiB}"});
  EXPECT_EQ(find(spec.families[1].settings, "model.path")->value, "/other");
  EXPECT_EQ(spec.stage(StageKind::train).gpus, schedule::GpuRequest::exactly(1));
  EXPECT_EQ(spec.rounds, 5);
  EXPECT_EQ(find(spec.settings, "generation.temperature")->value, "0");
  EXPECT_EQ(find(spec.families[1].settings, "model.max_memory")->value, "{\"0\": 2GiB}");
  EXPECT_EQ(spec.families[1].settings.size(), 2u);
}

TEST(ExperimentFile, NamesTheArgumentThatIsWrong) {
  EXPECT_NE(wrong(commands, {"train.gpus=some"}).find("train.gpus=some: gpus is \"some\""), std::string::npos);
  EXPECT_NE(wrong(commands, {"rounds"}).find("rounds: this is not a setting"), std::string::npos);
  EXPECT_NE(wrong(commands, {"families.a.model.dtype=x"}).find("families.a is \"/models/a\" in the file"),
            std::string::npos);
  EXPECT_NE(wrong(commands, {"generation.temprature=1"}).find("did you mean generation.temperature?"),
            std::string::npos);
}

TEST(ExperimentFile, RefusesASettingThatIsSaidTwice) {
  EXPECT_NE(wrong("experiment: {name: x}\nalgorithms:\n  sft: {training.max_steps: 1, training: {max_steps: 2}}\n"
                  "families: {a: /m}\ndatasets: {d: /d}\n")
                .find("lab.yaml:3:43: training.max_steps is set a second time (first by lab.yaml:3:9)"),
            std::string::npos);
}

TEST(ExperimentFile, HasABuiltInExperimentThatIsRight) {
  const auto spec = read_experiment(builtin_experiment(), "the built-in experiment", {"experiment.name=x"});
  ASSERT_TRUE(spec) << spec.error().what;
  EXPECT_EQ(jobs_of(*spec, 2).value().size(), 4u);
}

TEST(Differences, AreThoseThatDecideWhatDoneJobsFound) {
  const ExperimentSpec before = read();
  EXPECT_TRUE(differences(before, read({"train.gpus=1", "rounds_of_training=3", "priority=4", "output=x",
                                        "families.c=/c", "train.retries=0", "use_parallel_execution=false"}))
                  .empty());
  EXPECT_EQ(
      differences(before, read({"experiment.seed=8", "generation.temperature=1", "train.command=[x, '${output}']"})),
      (std::vector<std::string>{"experiment.seed", "generation.temperature", "train.command"}));
}

TEST(ExperimentJobs, WantGpusAsTheirStagesSay) {
  const ExperimentSpec spec = read();
  const std::vector<ExperimentJob> jobs = jobs_of(spec, 8).value();
  ASSERT_EQ(jobs.size(), 8u);
  EXPECT_EQ(jobs[0].stages[0].gpus.minimum, 1);
  EXPECT_EQ(jobs[0].stages[1].gpus, schedule::GpuRequest::exactly(2));
  EXPECT_EQ(jobs[0].stages[1].retries, 1);
  EXPECT_EQ(jobs[0].stages[0].retries, 0);
  const auto refused = jobs_of(spec, 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, Error::Kind::refused);
}

constexpr const char* own_stages = R"(
experiment: {name: lab}
algos: {SFT: {batch_size: 24, num_workers: 4}, DPO: {enabled: false}}
families: {a: /models/a}
datasets: {d: {data.path: /d, prompts: p.jsonl}}
)";

TEST(ExperimentFile, TakesAlgosAsItsAlgorithms) {
  const auto spec = read_experiment(own_stages, "lab.yaml", {"algos.SFT.batch_size=12"});
  ASSERT_TRUE(spec) << spec.error().what;
  ASSERT_EQ(spec->algorithms.size(), 1u);  // DPO is not enabled
  const Settings train = settings_for(*spec, jobs_of(*spec, 0).value()[0], StageKind::train);
  EXPECT_EQ(find(train, "training.algorithm")->value, "sft");
  EXPECT_EQ(find(train, "training.batch_size")->value, "12");
  EXPECT_EQ(find(train, "training.dataloader_num_workers")->value, "4");
  EXPECT_NE(wrong(own_stages, {"algorithms={SFT: }"}).find("keep one of the two"), std::string::npos);
  EXPECT_NE(wrong(own_stages, {"algos.SFT.enabled=false"}).find("no algorithm is enabled"), std::string::npos);
  EXPECT_NE(wrong(own_stages, {"algos={PITA: {batch_size: 24}}"}).find("needs value-guided algorithms"),
            std::string::npos);
}

TEST(ExperimentFile, TakesWhatIsSaidOfCollectingData) {
  const auto spec =
      read_experiment(own_stages, "lab.yaml", {"generate=muster", "data_collection.samples_per_example=4"});
  ASSERT_TRUE(spec) << spec.error().what;
  const Settings generate = settings_for(*spec, jobs_of(*spec, 0).value()[0], StageKind::generate);
  EXPECT_EQ(find(generate, "generation.samples")->value, "4");
  EXPECT_NE(wrong(own_stages, {"data_collection.reward_batch_size=32"}).find("needs reward models"), std::string::npos);
}

TEST(ExperimentFile, RefusesASettingThatNoStageReads) {
  for (const auto& [setting, readers] : {std::pair{"train.generation.top_k=3", "read by muster generate"},
                                         std::pair{"algos.SFT.generation.top_k=3", "read by muster generate"}})
    EXPECT_NE(wrong(own_stages, {setting}).find(readers), std::string::npos) << wrong(own_stages, {setting});
  EXPECT_EQ(wrong(own_stages, {"generation.top_k=3"}), "");  // of a stage that is switched off
  EXPECT_NE(wrong(own_stages, {"generation.top_k=3", "generate=[program, '${output}']"}).find("generation.top_k"),
            std::string::npos);
}

TEST(SettingsOfAStage, OverruleFromTheExperimentToTheStage) {
  const ExperimentSpec spec =
      read({"generate.generation.temperature=1", "families.a={model.path: /a, generation.top_k: 3}"});
  const std::vector<ExperimentJob> jobs = jobs_of(spec, 2).value();
  const Settings generate = settings_for(spec, jobs[0], StageKind::generate);
  EXPECT_EQ(find(generate, "generation.temperature")->value, "1");
  EXPECT_EQ(find(generate, "generation.top_k")->value, "3");
  EXPECT_EQ(find(generate, "data.operations"), nullptr);  // which muster generate would refuse
  const Settings train = settings_for(spec, jobs[4], StageKind::train);
  EXPECT_EQ(find(train, "training.algorithm")->value, "dpo");
  EXPECT_EQ(find(train, "data.path")->value, "${data}");
}

}  // namespace
}  // namespace muster::experiment
