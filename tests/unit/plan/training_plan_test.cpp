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
  EXPECT_EQ(plan_training(question).error().remedy, "--batch 6, or 9");
  question.batch = 8;
  EXPECT_EQ(plan_training(question).error().remedy, "--batch 9, or 6");
  question.batch = 2;
  EXPECT_EQ(plan_training(question).error().remedy, "--batch 3");
  question.batch = 12;
  question.micro_batch = 3;
  EXPECT_EQ(plan_training(question).error().remedy, "--batch 18");
}

// A question to muster's engine over so many GPUs, each with a room of this share of a whole training state.
Question own_question(std::int64_t ranks, double share) {
  Draw draw(11);
  Question question = random_question(draw, Work::training);
  question.workload.implementation = Implementation::muster;
  question.workload.weights = WeightType::float32;
  question.workload.mixed_precision = true;
  question.workload.recomputation = spec::Recomputation::none;
  question.workload.optimizer = spec::OptimizerKind::adamw;
  question.workload.exact = false;
  question.workload.sequence = 128;
  question.micro_batch = 1;
  const ModelWeight weight = weigh(question.model->shape, question.workload.weights);
  const Layout ddp{Scheme::ddp, spec::ShardingStrategy::full_shard, false, ranks, ranks, false};
  const DeviceMemory whole = device_memory(question.model->config, weight, question.workload, ddp,
                                           whole_model(question.model->config, weight), question.constants);
  const auto room = static_cast<std::int64_t>(static_cast<double>(whole.total()) * share);
  question.devices = gpus(std::vector<std::int64_t>(static_cast<std::size_t>(ranks), room));
  return question;
}

TEST(TrainingPlan, ReplicasWhereTheyFitAndShardsElse) {
  EXPECT_EQ(plan_training(own_question(4, 1.0))->layout.scheme, Scheme::ddp);
  const auto sharded = plan_training(own_question(4, 0.99));
  ASSERT_TRUE(sharded && sharded->fits());
  EXPECT_EQ(sharded->layout.scheme, Scheme::fsdp);
  EXPECT_EQ(sharded->layout.sharding, spec::ShardingStrategy::full_shard);
  EXPECT_FALSE(sharded->layout.offload);
  EXPECT_EQ(strategy_words(sharded->layout), "fsdp full_shard");
}

TEST(TrainingPlan, CpuRanksAreReplicasWhereTheyFitAndShardsElse) {
  Question question = own_question(1, 1.0);
  question.devices.clear();
  question.ranks = 2;
  question.host_memory = 64 * gibibyte;
  auto plan = plan_training(question);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->layout.scheme, Scheme::ddp);
  question.host_memory = 2 * gibibyte;
  plan = plan_training(question);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->layout.scheme, Scheme::fsdp);
  question.scheme = Scheme::fsdp;
  plan = plan_training(question);
  ASSERT_TRUE(plan);
  const std::int64_t kept = plan->ranks[0].memory.total();
  EXPECT_EQ(plan->ranks.size(), 2U);
  question.offload = true;
  plan = plan_training(question);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->ranks[0].memory.total(), kept);
  EXPECT_EQ(plan->ranks[0].memory.host, 0);
  EXPECT_TRUE(std::ranges::any_of(
      plan->reasons, [](const std::string& reason) { return reason.find("the host's already") != std::string::npos; }));
}

TEST(TrainingPlan, OneRankShardsOnlyToOffload) {
  Question question = own_question(1, 2.0);
  question.scheme = Scheme::fsdp;
  const auto refused = plan_training(question);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, Error::Kind::bad_input);
  EXPECT_TRUE(refused.error().remedy.starts_with("--strategy single"));
  question.offload = true;
  ASSERT_TRUE(plan_training(question));
  EXPECT_GT(plan_training(question)->ranks[0].memory.host, 0);
  question.devices.clear();
  EXPECT_TRUE(plan_training(question));
  question.sharding = spec::ShardingStrategy::no_shard;
  EXPECT_EQ(plan_training(question).error().kind, Error::Kind::bad_input);
}

TEST(TrainingPlan, GroupsOfAHybridDivideTheRanks) {
  Question question = own_question(6, 2.0);
  question.scheme = Scheme::fsdp;
  question.sharding = spec::ShardingStrategy::hybrid_shard;
  EXPECT_EQ(plan_training(question)->layout.shard_group, 6);
  question.hosts = 2;
  EXPECT_EQ(plan_training(question)->layout.shard_group, 6) << "the ranks of one host";
  question.shard_group = 3;
  EXPECT_EQ(plan_training(question)->layout.shard_group, 3);
  question.shard_group = 5;
  EXPECT_EQ(plan_training(question).error().remedy, "distributed.fsdp_group_size=4");
  question.hosts = 1;
  question.devices.pop_back();
  question.shard_group = 3;
  EXPECT_EQ(plan_training(question).error().remedy, "distributed.fsdp_sharding_strategy=full_shard");
}

TEST(TrainingPlan, RanksThatShareAGpuShareItsMemory) {
  Question question = own_question(2, 2.0);
  question.ranks = 3;
  question.scheme = Scheme::fsdp;
  const auto plan = plan_training(question);
  ASSERT_TRUE(plan);
  ASSERT_EQ(plan->ranks.size(), 3U);
  EXPECT_EQ(plan->layout.world, 3);
  EXPECT_EQ(plan->ranks[0].gpu->number, 0);
  EXPECT_EQ(plan->ranks[1].gpu->number, 1);
  EXPECT_EQ(plan->ranks[2].gpu->number, 0);
  EXPECT_EQ(plan->ranks[0].limit, question.devices[0].limit / 2);
  EXPECT_EQ(plan->ranks[1].limit, question.devices[1].limit);
}

}  // namespace
}  // namespace muster::plan
