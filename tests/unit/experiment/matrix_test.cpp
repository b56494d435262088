#include "experiment/matrix.hpp"

#include <gtest/gtest.h>

#include "machine.hpp"
#include "schedule/schedule_svg.hpp"
#include "schedule/simulation.hpp"

namespace muster::experiment {
namespace {

using namespace schedule;

Matrix small() {
  Matrix matrix;
  matrix.algorithms = {"sft"};
  matrix.families = {"llama", "gemma"};
  matrix.datasets = {"gsm8k"};
  matrix.rounds = 2;
  return matrix;
}

Ids ids(const std::vector<Job>& jobs) {
  Ids all;
  for (const Job& one : jobs) all.push_back(one.id.text);
  return all;
}

TEST(Matrix, NamesEveryCellAndRound) {
  Ids all;
  const std::vector<MatrixCell> jobs = expand(small()).value();
  for (const MatrixCell& one : jobs) all.push_back(one.id.text);
  EXPECT_EQ(all, (Ids{"sft_llama_gsm8k_r1", "sft_llama_gsm8k_r2", "sft_gemma_gsm8k_r1", "sft_gemma_gsm8k_r2"}));
}

TEST(Matrix, RunsTheStagesOfAJobOneAfterAnother) {
  const Matrix matrix = small();
  const std::vector<Job> jobs = jobs_to_submit(matrix, expand(matrix).value());
  ASSERT_EQ(jobs.size(), 12u);
  EXPECT_EQ(jobs[1].id.text, "sft_llama_gsm8k_r1.train");
  EXPECT_EQ(jobs[1].after_ok, std::vector<JobId>{{"sft_llama_gsm8k_r1.generate"}});
  EXPECT_TRUE(jobs[0].gpus.is_elastic());
  EXPECT_FALSE(jobs[1].gpus.is_elastic());
}

TEST(Matrix, LeavesOutWhatIsDone) {
  const Matrix matrix = small();
  const std::vector<Job> jobs =
      jobs_to_submit(matrix, expand(matrix).value(), [](const MatrixCell& one) -> std::size_t {
        if (one.family == "gemma") return one.round == 1 ? 3 : 1;
        return one.round == 1 ? 2 : 0;
      });
  EXPECT_EQ(ids(jobs), (Ids{"sft_llama_gsm8k_r1.evaluate", "sft_llama_gsm8k_r2.generate", "sft_llama_gsm8k_r2.train",
                            "sft_llama_gsm8k_r2.evaluate", "sft_gemma_gsm8k_r2.train", "sft_gemma_gsm8k_r2.evaluate"}));
  Machine machine(2);
  EXPECT_EQ(started(machine.submit(0, jobs)), (Ids{"sft_gemma_gsm8k_r2.train", "sft_llama_gsm8k_r1.evaluate"}));
  EXPECT_EQ(machine.state("sft_llama_gsm8k_r2.generate"), JobState::waiting);
}

TEST(Matrix, NamesEveryProblem) {
  Matrix wrong = small();
  wrong.algorithms = {};
  wrong.families = {"a b", "x", "x"};
  wrong.rounds = 0;
  const auto expanded = expand(wrong);
  ASSERT_FALSE(expanded);
  for (const char* part : {"the list is empty", "\"a b\" cannot be part of an id", "x is named twice", "rounds"})
    EXPECT_NE(expanded.error().what.find(part), std::string::npos) << expanded.error().what;
}

TEST(Matrix, RefusesNamesThatMakeTheSameId) {
  Matrix wrong = small();
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

// x and y of every box, and where it ends.
struct Box {
  double x = 0, y = 0, width = 0, height = 0;
};
std::vector<Box> boxes_of(const std::string& svg) {
  std::vector<Box> boxes;
  const std::string begin = "<rect class=\"box";
  for (std::size_t at = svg.find(begin); at != std::string::npos; at = svg.find(begin, at + 1)) {
    const auto number = [&](const std::string& key) {
      return std::stod(svg.substr(svg.find(" " + key + "=\"", at) + key.size() + 3));
    };
    boxes.push_back({number("x"), number("y"), number("width"), number("height")});
  }
  return boxes;
}

TEST(SchedulePicture, PaintsNoJobOverAnother) {
  Simulation simulation(with_gpus(2), as_predicted(seconds(60)));
  std::vector<Job> jobs;
  for (int i = 0; i < 20; ++i) jobs.push_back(lasting(job("none" + std::to_string(i), 0), 30 + i * 17 % 50));
  for (int i = 0; i < 6; ++i) jobs.push_back(lasting(job("one" + std::to_string(i)), 20 + i));
  simulation.at(at(0), Submitted{jobs});
  simulation.run();
  const auto boxes = boxes_of(schedule_svg("many", simulation.scheduler(), simulation.runs()));
  ASSERT_EQ(boxes.size(), 26u);
  for (std::size_t i = 0; i < boxes.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      constexpr double rounding = 0.2;
      const bool beside = boxes[i].x + boxes[i].width <= boxes[j].x + rounding ||
                          boxes[j].x + boxes[j].width <= boxes[i].x + rounding;
      const bool above = boxes[i].y + boxes[i].height <= boxes[j].y || boxes[j].y + boxes[j].height <= boxes[i].y;
      EXPECT_TRUE(beside || above) << i << " and " << j;
    }
}

TEST(SchedulePicture, HasTicksAtRoundTimes) {
  Simulation simulation(with_gpus(1), as_predicted());
  simulation.at(at(0), Submitted{{lasting(job("a"), 47 * 60 + 13)}});
  simulation.run();
  const std::string svg = schedule_svg("one", simulation.scheduler(), simulation.runs());
  for (const char* tick : {">0<", ">5 min<", ">10 min<", ">45 min<"}) EXPECT_NE(svg.find(tick), std::string::npos) << tick;
  EXPECT_EQ(svg.find(">11 min"), std::string::npos);
}

}  // namespace
}  // namespace muster::experiment
