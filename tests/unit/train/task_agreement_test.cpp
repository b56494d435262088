#include "train/task_agreement.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "communicate/thread_group.hpp"

namespace muster::train {
namespace {

struct Agreement {
  std::vector<std::string> errors;  // by rank, empty where there is none
  std::vector<wire::TrainTask> tasks;
};

// Two ranks, of which the second one's task was changed.
Agreement agree(const std::function<void(wire::TrainTask&)>& change, std::uint64_t second_seed = 0) {
  const auto ranks = communicate::make_thread_group(2, std::chrono::seconds(20));
  Agreement agreement{{"", ""}, std::vector<wire::TrainTask>(2)};
  change(agreement.tasks[1]);
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      const auto agreed = agree_on_task(agreement.tasks[rank], rank == 0 ? 0 : second_seed, *ranks[rank], at::kCPU);
      if (!agreed) agreement.errors[rank] = agreed.error().what;
    });
  threads.clear();
  return agreement;
}

TEST(TaskAgreement, NamesTheSettingThatDiffersOnBothRanks) {
  const std::vector<std::pair<std::string, std::function<void(wire::TrainTask&)>>> changes{
      {"distributed.strategy or distributed.fsdp_sharding_strategy",
       [](auto& task) { task.sharding.kind = spec::ShardingStrategy::full_shard; }},
      {"training.mixed_precision", [](auto& task) { task.compute = spec::ElementType::bfloat16; }},
      {"training.deterministic", [](auto& task) { task.exact = true; }},
      {"training.max_steps", [](auto& task) { task.steps = 5; }},
      {"training.eval_steps", [](auto& task) { task.evaluation.every = 5; }},
      {"training.save_at_end", [](auto& task) { task.save_at_end = spec::FinalSave::model; }},
      {"the data for evaluation", [](auto& task) { task.evaluation.data = "x"; }},
      {"the data for evaluation", [](auto& task) { task.evaluation.questions = "x"; }},
      {"data", [](auto& task) { task.data = "/other/b.tokens"; }},
      {"training.learning_rate", [](auto& task) { task.optimizer.rate *= 1 + 1e-15; }},
      {"training.max_grad_norm", [](auto& task) { task.optimizer.max_gradient_norm = 2; }},
  };
  for (const auto& [setting, change] : changes) {
    const std::string expected = "rank 1 was started with another " + setting + " than rank 0";
    EXPECT_EQ(agree(change).errors, (std::vector{expected, expected}));
  }
  EXPECT_EQ(agree([](auto&) {}, 1).errors.front(), "rank 1 was started with another experiment.seed than rank 0");
}

TEST(TaskAgreement, LeavesToEachRankWhatIsItsOwn) {
  const auto agreement = agree([](auto& task) {
    task.run_folder = "/b";
    task.loader_threads = 3;
    task.keep = 2;
    task.resume = "c";
    task.evaluation.samples = 9;
  });
  EXPECT_EQ(agreement.errors, (std::vector<std::string>{"", ""}));
  EXPECT_EQ(agreement.tasks[1].loader_threads, 3);
}

TEST(TaskAgreement, TakesRankZerosPasses) {
  const auto agreement = agree([](auto& task) {
    task.micro_batch = 7;
    task.recompute = spec::Recomputation::full;
  });
  EXPECT_EQ(agreement.errors, (std::vector<std::string>{"", ""}));
  EXPECT_EQ(agreement.tasks[1].micro_batch, 1);
  EXPECT_EQ(agreement.tasks[1].recompute, spec::Recomputation::none);
}

TEST(TaskAgreement, ComparesDataByTheNamesOfItsFiles) {
  // A folder of its own has an empty name, as the first rank's path has.
  const auto agreement = agree([](auto& task) { task.data = "/elsewhere/"; });
  EXPECT_EQ(agreement.errors, (std::vector<std::string>{"", ""}));
}

}  // namespace
}  // namespace muster::train
