#include "schedule/experiment.hpp"

#include <gtest/gtest.h>

#include "machine.hpp"
#include "schedule/schedule_svg.hpp"
#include "schedule/simulation.hpp"

namespace muster::schedule {
namespace {

Experiment small() {
  Experiment experiment;
  experiment.algorithms = {"sft"};
  experiment.families = {"llama", "gemma"};
  experiment.datasets = {"gsm8k"};
  experiment.rounds = 2;
  return experiment;
}

Ids ids(const std::vector<Job>& jobs) {
  Ids all;
  for (const Job& one : jobs) all.push_back(one.id.text);
  return all;
}

TEST(Experiment, NamesEveryCellAndRound) {
  Ids all;
  const std::vector<ExperimentJob> jobs = expand(small()).value();
  for (const ExperimentJob& one : jobs) all.push_back(one.id.text);
  EXPECT_EQ(all, (Ids{"sft_llama_gsm8k_r1", "sft_llama_gsm8k_r2", "sft_gemma_gsm8k_r1", "sft_gemma_gsm8k_r2"}));
}

TEST(Experiment, RunsTheStagesOfAJobOneAfterAnother) {
  const Experiment experiment = small();
  const std::vector<Job> jobs = jobs_to_submit(experiment, expand(experiment).value());
  ASSERT_EQ(jobs.size(), 12u);
  EXPECT_EQ(jobs[1].id.text, "sft_llama_gsm8k_r1.train");
  EXPECT_EQ(jobs[1].after_ok, std::vector<JobId>{{"sft_llama_gsm8k_r1.generate"}});
  EXPECT_TRUE(jobs[0].gpus.is_elastic());
  EXPECT_FALSE(jobs[1].gpus.is_elastic());
}

TEST(Experiment, LeavesOutWhatIsDone) {
  const Experiment experiment = small();
  const std::vector<Job> jobs =
      jobs_to_submit(experiment, expand(experiment).value(), [](const ExperimentJob& one) -> std::size_t {
        if (one.family == "gemma") return one.round == 1 ? 3 : 1;
        return one.round == 1 ? 2 : 0;
      });
  EXPECT_EQ(ids(jobs), (Ids{"sft_llama_gsm8k_r1.evaluate", "sft_llama_gsm8k_r2.generate", "sft_llama_gsm8k_r2.train",
                            "sft_llama_gsm8k_r2.evaluate", "sft_gemma_gsm8k_r2.train", "sft_gemma_gsm8k_r2.evaluate"}));
  Machine machine(2);
  EXPECT_EQ(started(machine.submit(0, jobs)), (Ids{"sft_gemma_gsm8k_r2.train", "sft_llama_gsm8k_r1.evaluate"}));
  EXPECT_EQ(machine.state("sft_llama_gsm8k_r2.generate"), JobState::waiting);
}

TEST(Experiment, NamesEveryProblem) {
  Experiment wrong = small();
  wrong.algorithms = {};
  wrong.families = {"a b", "x", "x"};
  wrong.rounds = 0;
  const auto expanded = expand(wrong);
  ASSERT_FALSE(expanded);
  for (const char* part : {"the list is empty", "\"a b\" cannot be part of an id", "x is named twice", "rounds"})
    EXPECT_NE(expanded.error().what.find(part), std::string::npos) << expanded.error().what;
}

TEST(Experiment, RefusesNamesThatMakeTheSameId) {
  Experiment wrong = small();
  wrong.algorithms = {"a", "a_b"};
  wrong.families = {"b_c", "c"};
  const auto expanded = expand(wrong);
  ASSERT_FALSE(expanded);
  EXPECT_NE(expanded.error().what.find("two jobs would be called a_b_c_gsm8k_r1"), std::string::npos);
}

TEST(SchedulePicture, HasABoxForEveryRunAndAnArrowForEveryChangeOfGpu) {
  Simulation simulation(with_gpus(2), as_predicted(seconds(60)));
  Job last = job("c <&>", 2);
  last.after_ok = {{"a"}, {"b"}};
  simulation.at(at(0), Submitted{{job("a"), job("b"), last, job("none", 0)}});
  simulation.run();
  const std::string svg = schedule_svg("two & one", simulation.scheduler(), simulation.runs());
  const auto count = [&](const std::string& part) {
    int found = 0;
    for (std::size_t place = svg.find(part); place != std::string::npos; place = svg.find(part, place + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("<rect class=\"box"), 4);
  EXPECT_EQ(count("<path class=\"arrow"), 1);  // b's box stands in another row than c's first
  EXPECT_EQ(count("two &amp; one"), 1);
  EXPECT_EQ(count("c &lt;&amp;&gt;"), 2);  // to be read, and to be pointed at
}

}  // namespace
}  // namespace muster::schedule
