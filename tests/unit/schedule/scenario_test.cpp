// The scenarios that people ask for, as schedules in words: tests/unit/schedule/fixtures/*.txt.
#include <gtest/gtest.h>

#include "system/files.hpp"
#include "machine.hpp"
#include "schedule/experiment.hpp"
#include "schedule/schedule_text.hpp"
#include "schedule/simulation.hpp"
#include "schedule/why.hpp"

namespace muster::schedule {
namespace {

Experiment matrix(int choices, int rounds) {
  Experiment experiment;
  experiment.algorithms = {"pita", "dpo"};
  experiment.families = {"llama", "gemma"};
  experiment.datasets = {"gsm8k", "tldr"};
  for (auto* list : {&experiment.algorithms, &experiment.families, &experiment.datasets})
    list->resize(static_cast<std::size_t>(choices));
  experiment.rounds = rounds;
  experiment.stages[0].prediction = std::chrono::minutes(40);
  experiment.stages[1].prediction = std::chrono::minutes(60);
  experiment.stages[2].prediction = std::chrono::minutes(20);
  return experiment;
}

Simulation simulated(const Experiment& experiment, int gpus) {
  Simulation simulation(with_gpus(gpus), as_predicted());
  simulation.at(Time{}, Submitted{jobs_to_submit(experiment, expand(experiment).value())});
  simulation.run();
  return simulation;
}

void expect_schedule(const std::string& name, const Simulation& simulation) {
  const std::string path = std::string(MUSTER_FIXTURES) + "/" + name;
  const std::string drawn = schedule_text(simulation.scheduler(), simulation.runs());
  const auto golden = read_file(path);
  ASSERT_TRUE(golden) << "there is no " << path << ", which should say:\n" << drawn;
  EXPECT_EQ(drawn, *golden);
}

TEST(Scenario, TwoByTwoByTwoInTwoRoundsOnOneGpu) { expect_schedule("matrix_1_gpu.txt", simulated(matrix(2, 2), 1)); }
TEST(Scenario, TwoByTwoByTwoInTwoRoundsOnTwoGpus) { expect_schedule("matrix_2_gpus.txt", simulated(matrix(2, 2), 2)); }
TEST(Scenario, TwoByTwoByTwoInTwoRoundsOnEightGpus) {
  expect_schedule("matrix_8_gpus.txt", simulated(matrix(2, 2), 8));
}
TEST(Scenario, OneJobAloneGeneratesOnAllEightGpus) {
  expect_schedule("one_job_8_gpus.txt", simulated(matrix(1, 1), 8));
}
TEST(Scenario, OneAtATimeEachGeneratesOnAllGpus) {
  Experiment experiment = matrix(2, 1);
  experiment.families.resize(1);
  experiment.datasets.resize(1);
  experiment.parallel = false;
  expect_schedule("one_at_a_time_4_gpus.txt", simulated(experiment, 4));
}

// The example of docs/schedule.md.
TEST(Scenario, TheManualsExampleIsTrue) {
  const auto minutes = [](Job made, int count) { return lasting(std::move(made), count * 60); };
  Simulation simulation(with_gpus(2), as_predicted());
  simulation.at(at(0), Submitted{{minutes(job("A"), 60), minutes(job("B"), 20), minutes(job("G", 2), 30),
                                  minutes(job("S"), 30)}});
  simulation.at(at(25 * 60), Submitted{{minutes(job("L"), 50)}});
  std::string told;
  while (simulation.step())
    if (simulation.scheduler().now() == at(50 * 60)) told = to_text(why(simulation.scheduler(), {"L"}).value());
  std::string starts;
  for (const JobRun& run : simulation.runs())
    starts += simulation.scheduler().jobs().at(run.job).job.id.text + " " +
              std::to_string((run.start - Time{}) / std::chrono::minutes(1)) + ", ";
  EXPECT_EQ(starts, "A 0, B 0, S 20, G 60, L 90, ");
  ASSERT_FALSE(told.empty());
  EXPECT_NE(read_file(std::string(MUSTER_DOCS) + "/schedule.md")->find(told), std::string::npos) << told;
}

}  // namespace
}  // namespace muster::schedule
