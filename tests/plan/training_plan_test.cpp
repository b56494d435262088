#include <gtest/gtest.h>

#include <algorithm>

#include "plan/plan_parts.hpp"
#include "random_questions.hpp"

namespace muster::plan {
namespace {

constexpr unsigned rounds = 200;

Question drawn_question(Draw& draw) {
  Question question = random_question(draw, Work::training);
  question.hosts = draw.one_of<std::int64_t>({1, 1, 1, 2});
  if (draw.maybe(0.3))
    question.scheme = question.devices.size() > 1 ? draw.one_of({Scheme::ddp, Scheme::fsdp}) : Scheme::single;
  if (question.scheme == Scheme::single) question.hosts = 1;
  const std::int64_t ranks = question.hosts * std::ssize(question.devices);
  const std::int64_t passes = draw.one_of<std::int64_t>({1, 2, 4});
  switch (draw.between(0, 3)) {
    case 0:  // whatever fits
      question.micro_batch.reset();
      break;
    case 1:  // the batch alone
      question.batch = *question.micro_batch * passes * ranks;
      question.micro_batch.reset();
      break;
    case 2:
      question.batch = *question.micro_batch * passes * ranks;
      break;
    default:
      question.accumulation = passes;
  }
  return question;
}

TEST(TrainingPlan, BatchIsMicroBatchTimesPassesTimesRanks) {
  for (unsigned seed = 0; seed < rounds; ++seed) {
    Draw draw(seed);
    const Question question = drawn_question(draw);
    const auto plan = plan_training(question);
    ASSERT_TRUE(plan) << seed << plan.error().what;
    const std::int64_t ranks = plan->layout.world;
    EXPECT_EQ(ranks, std::ssize(plan->ranks)) << seed;
    EXPECT_EQ(plan->effective_batch, plan->workload.micro_batch * plan->workload.accumulation * ranks) << seed;
    if (question.batch) {
      EXPECT_EQ(plan->effective_batch, *question.batch) << seed;
    }
    if (question.micro_batch) {
      EXPECT_EQ(plan->workload.micro_batch, *question.micro_batch) << seed;
    }
    if (question.accumulation) {
      EXPECT_EQ(plan->workload.accumulation, *question.accumulation) << seed;
    }
  }
}

TEST(TrainingPlan, FitsExactlyWhereEveryRankIsWithinItsLimit) {
  int fitting = 0, refused = 0;
  for (unsigned seed = 0; seed < rounds; ++seed) {
    Draw draw(seed);
    const auto plan = plan_training(drawn_question(draw));
    ASSERT_TRUE(plan) << seed;
    const bool all =
        std::ranges::all_of(plan->ranks, [](const RankPlan& rank) { return rank.memory.total() <= rank.limit; });
    EXPECT_EQ(plan->fits(), all) << seed;
    ++(plan->fits() ? fitting : refused);
    if (plan->fits()) continue;
    std::int64_t worst = 0;
    for (const RankPlan& rank : plan->ranks) worst = std::max(worst, rank.memory.total() - rank.limit);
    EXPECT_EQ(plan->refusal->shortfall, worst) << seed;
  }
  EXPECT_GT(fitting, 40);
  EXPECT_GT(refused, 40);
}

TEST(TrainingPlan, ALargerLimitNeverTurnsFitsIntoRefused) {
  for (unsigned seed = 0; seed < rounds; ++seed) {
    Draw draw(seed);
    Question question = drawn_question(draw);
    bool fitted = false;
    for (int step = 0; step < 6; ++step) {
      const auto plan = plan_training(question);
      ASSERT_TRUE(plan) << seed;
      EXPECT_TRUE(plan->fits() || !fitted) << seed << " " << step;
      fitted = plan->fits();
      for (PlanDevice& device : question.devices) device.limit += device.limit / 3;
    }
  }
}

TEST(TrainingPlan, TheMicroBatchIsTheLargestThatFits) {
  int checked = 0;
  for (unsigned seed = 0; seed < rounds; ++seed) {
    Draw draw(seed);
    Question question = drawn_question(draw);
    if (question.micro_batch || question.accumulation) continue;
    const auto plan = plan_training(question);
    ASSERT_TRUE(plan) << seed;
    if (!plan->fits()) continue;
    question.scheme = plan->layout.scheme;
    if (question.batch) {
      const std::int64_t per_rank = *question.batch / plan->layout.world;
      question.micro_batch = plan->workload.micro_batch + 1;
      while (*question.micro_batch <= per_rank && per_rank % *question.micro_batch != 0) ++*question.micro_batch;
      if (*question.micro_batch > per_rank) continue;
    } else {
      question.micro_batch = plan->workload.micro_batch + 1;
    }
    ++checked;
    const auto larger = plan_training(question);
    ASSERT_TRUE(larger) << seed;
    EXPECT_FALSE(larger->fits()) << seed;
  }
  EXPECT_GT(checked, 20);
}

TEST(TrainingPlan, HostMemoryIsUsedOnlyWhereItIsAskedFor) {
  for (unsigned seed = 0; seed < rounds; ++seed) {
    Draw draw(seed);
    Question question = drawn_question(draw);
    auto plan = plan_training(question);
    ASSERT_TRUE(plan) << seed;
    EXPECT_FALSE(plan->layout.offload) << seed;
    for (const RankPlan& rank : plan->ranks) EXPECT_EQ(rank.memory.host, 0) << seed;
    question.scheme = Scheme::fsdp;
    question.offload = true;
    plan = plan_training(question);
    ASSERT_TRUE(plan) << seed;
    for (const RankPlan& rank : plan->ranks) EXPECT_GT(rank.memory.host, 0) << seed;
  }
}

TEST(TrainingPlan, WhatIsOffloadedMustFitTheHost) {
  Draw draw(3);
  Question question = random_question(draw, Work::training);
  question.devices = gpus({400 * gibibyte, 400 * gibibyte});
  question.scheme = Scheme::fsdp;
  question.offload = true;
  question.micro_batch = 1;
  const auto enough = plan_training(question);
  ASSERT_TRUE(enough && enough->fits());
  const std::int64_t on_host = enough->ranks[0].memory.host + enough->ranks[1].memory.host;
  question.host_memory = on_host;
  EXPECT_TRUE(plan_training(question)->fits());
  question.host_memory = on_host - 1;
  const auto refused = plan_training(question);
  ASSERT_TRUE(refused && refused->refusal);
  EXPECT_EQ(refused->refusal->shortfall, 1);
  EXPECT_NE(refused->refusal->reason.find("host memory"), std::string::npos);
}

TEST(TrainingPlan, PipelineStagesHoldEveryParameterOnce) {
  for (unsigned seed = 0; seed < rounds; ++seed) {
    Draw draw(seed);
    Question question = random_question(draw, Work::training);
    const spec::ModelConfig& config = question.model->config;
    if (std::ssize(question.devices) > config.layers || question.devices.size() < 2) continue;
    question.scheme = Scheme::pipeline;
    question.workload.mixed_precision = false;
    question.workload.weights = WeightType::bfloat16;
    const auto plan = plan_training(question);
    ASSERT_TRUE(plan) << seed;
    std::int64_t weights = 0;
    std::size_t next = 0;
    for (const RankPlan& rank : plan->ranks) {
      weights += rank.memory[Component::weights];
      ASSERT_TRUE(rank.layers) << seed;
      EXPECT_EQ(rank.layers->first_block, next) << seed;
      next = rank.layers->end_block;
    }
    EXPECT_EQ(next, static_cast<std::size_t>(config.layers)) << seed;
    const std::int64_t twice = config.tied ? config.vocabulary * config.hidden : 0;  // the tied embedding, on both ends
    EXPECT_EQ(weights, 2 * (plan->parameters + twice)) << seed;
  }
}

TEST(TrainingPlan, WithoutGpusOneCpuRankComputes) {
  Draw draw(5);
  Question question = random_question(draw, Work::training);
  question.devices.clear();
  const auto plan = plan_training(question);
  ASSERT_TRUE(plan && plan->fits());
  ASSERT_EQ(plan->ranks.size(), 1U);
  EXPECT_FALSE(plan->ranks[0].gpu);
  EXPECT_FALSE(plan->ranks[0].limit_is_known());
  question.host_memory = plan->ranks[0].memory.total() - 1;
  EXPECT_FALSE(plan_training(question)->fits());
  question.scheme = Scheme::fsdp;
  EXPECT_EQ(plan_training(question).error().kind, Error::Kind::bad_input);
}

TEST(TrainingPlan, ABatchThatRanksDoNotDivideIsBadInput) {
  Draw draw(7);
  Question question = random_question(draw, Work::training);
  question.devices = gpus({gibibyte, gibibyte, gibibyte});
  question.micro_batch.reset();
  question.batch = 7;
  EXPECT_EQ(plan_training(question).error().remedy, "--batch 9");
  question.batch = 12;
  question.micro_batch = 3;
  EXPECT_EQ(plan_training(question).error().remedy, "--batch 18");
}

}  // namespace
}  // namespace muster::plan
