// The scenarios that people ask for, as schedules in words: tests/unit/schedule/fixtures/*.txt.
#include <gtest/gtest.h>

#include "system/files.hpp"
#include "machine.hpp"
#include "experiment/matrix.hpp"
#include "schedule/schedule_text.hpp"
#include "schedule/simulation.hpp"
#include "schedule/why.hpp"

namespace muster::schedule {
namespace {

using experiment::expand;
using experiment::jobs_to_submit;
using experiment::Matrix;

Matrix matrix_of(int choices, int rounds) {
  Matrix matrix;
  matrix.algorithms = {"pita", "dpo"};
  matrix.families = {"llama", "gemma"};
  matrix.datasets = {"gsm8k", "tldr"};
  for (auto* list : {&matrix.algorithms, &matrix.families, &matrix.datasets})
    list->resize(static_cast<std::size_t>(choices));
  matrix.rounds = rounds;
  matrix.stages[0].prediction = std::chrono::minutes(40);
  matrix.stages[1].prediction = std::chrono::minutes(60);
  matrix.stages[2].prediction = std::chrono::minutes(20);
  return matrix;
}

Simulation simulated(const Matrix& matrix, int gpus) {
  Simulation simulation(with_gpus(gpus), as_predicted());
  simulation.at(Time{}, Submitted{jobs_to_submit(matrix, expand(matrix).value())});
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

TEST(Scenario, TwoByTwoByTwoInTwoRoundsOnOneGpu) { expect_schedule("matrix_1_gpu.txt", simulated(matrix_of(2, 2), 1)); }
TEST(Scenario, TwoByTwoByTwoInTwoRoundsOnTwoGpus) { expect_schedule("matrix_2_gpus.txt", simulated(matrix_of(2, 2), 2)); }
TEST(Scenario, TwoByTwoByTwoInTwoRoundsOnEightGpus) {
  expect_schedule("matrix_8_gpus.txt", simulated(matrix_of(2, 2), 8));
}
TEST(Scenario, OneJobAloneGeneratesOnAllEightGpus) {
  expect_schedule("one_job_8_gpus.txt", simulated(matrix_of(1, 1), 8));
}
TEST(Scenario, OneAtATimeEachGeneratesOnAllGpus) {
  Matrix matrix = matrix_of(2, 1);
  matrix.families.resize(1);
  matrix.datasets.resize(1);
  matrix.parallel = false;
  expect_schedule("one_at_a_time_4_gpus.txt", simulated(matrix, 4));
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
