#include <gtest/gtest.h>

#include <algorithm>

#include "plan/plan_parts.hpp"
#include "random_questions.hpp"

namespace muster::plan {
namespace {

constexpr unsigned rounds = 200;

Question drawn_question(Draw& draw) {
  Question question = random_question(draw, Work::inference);
  if (draw.maybe(0.6))
    question.map = spec::DeviceMap{draw.one_of(
        {spec::MapRule::automatic, spec::MapRule::balanced, spec::MapRule::balanced_low_0, spec::MapRule::sequential})};
  if (draw.maybe(0.2)) question.cpu_limit = 1000 * gibibyte;
  return question;
}

bool lies_in(const std::string& path, const std::string& entry) {
  return entry.empty() || path == entry || path.starts_with(entry + ".");
}

TEST(InferencePlan, EveryTensorIsCoveredOnceByTheMap) {
  int maps = 0;
  for (unsigned seed = 0; seed < rounds; ++seed) {
    Draw draw(seed);
    const Question question = drawn_question(draw);
    const auto plan = plan_inference(question);
    ASSERT_TRUE(plan) << seed << plan.error().what;
    if (!plan->map) continue;
    ++maps;
    const spec::ModelShape& shape = question.model->shape;
    for (std::size_t i = 0; i < shape.tensors.size(); ++i) {
      const std::string path = shape.path(spec::TensorId{i});
      const auto holders =
          std::ranges::count_if(plan->map->entries, [&](const auto& entry) { return lies_in(path, entry.first); });
      EXPECT_EQ(holders, 1) << seed << " " << path;
    }
  }
  EXPECT_GT(maps, 80);
}

TEST(InferencePlan, WhatLiesOnTheDevicesIsTheModelAndItsDuplicates) {
  for (unsigned seed = 0; seed < rounds; ++seed) {
    Draw draw(seed);
    const Question question = drawn_question(draw);
    const auto plan = plan_inference(question);
    ASSERT_TRUE(plan) << seed;
    if (plan->layout.scheme != Scheme::layer_split) continue;
    std::int64_t held = 0, blocks = 0;
    for (const RankPlan& rank : plan->ranks) {
      held += rank.memory[Component::weights] + rank.memory[Component::quantization];
      blocks += static_cast<std::int64_t>(rank.layers->end_block - rank.layers->first_block);
    }
    for (const auto& [place, bytes] : plan->off_gpu) held += bytes;
    EXPECT_LE(blocks, question.model->config.layers) << seed;
    // A duplicate off the GPUs is told, and lies with neither.
    const std::int64_t whole = weigh(question.model->shape, question.workload).parameter_bytes;
    if (plan->off_gpu.empty()) {
      EXPECT_EQ(held, whole + plan->duplicated) << seed;
      EXPECT_EQ(blocks, question.model->config.layers) << seed;
    } else {
      EXPECT_GE(held, whole) << seed;
      EXPECT_LE(held, whole + plan->duplicated) << seed;
    }
    if (!question.model->config.tied) {
      EXPECT_EQ(plan->duplicated, 0) << seed;
    }
  }
}

TEST(InferencePlan, FitsExactlyWhereEveryRankIsWithinItsLimit) {
  int fitting = 0, refused = 0;
  for (unsigned seed = 0; seed < rounds; ++seed) {
    Draw draw(seed);
    const auto plan = plan_inference(drawn_question(draw));
    ASSERT_TRUE(plan) << seed;
    EXPECT_EQ(plan->fits(), std::ranges::all_of(plan->ranks, [](const RankPlan& rank) { return rank.fits(); })) << seed;
    ++(plan->fits() ? fitting : refused);
  }
  EXPECT_GT(fitting, 40);
  EXPECT_GT(refused, 20);
}

TEST(InferencePlan, ALargerLimitNeverTurnsFitsIntoRefused) {
  for (unsigned seed = 0; seed < rounds; ++seed) {
    Draw draw(seed);
    Question question = drawn_question(draw);
    bool fitted = false;
    for (int step = 0; step < 6; ++step) {
      const auto plan = plan_inference(question);
      ASSERT_TRUE(plan) << seed;
      EXPECT_TRUE(plan->fits() || !fitted) << seed << " " << step;
      fitted = plan->fits();
      for (PlanDevice& device : question.devices) device.limit += device.limit / 3;
    }
  }
}

// The split is found by its own accounting, the table by the memory model: what the one says fits, fits by the other.
TEST(InferencePlan, WithRoomEnoughInHostMemoryEverySplitFits) {
  int split = 0;
  for (unsigned seed = 0; seed < rounds; ++seed) {
    Draw draw(seed);
    Question question = random_question(draw, Work::inference);
    question.cpu_limit = 100'000 * gibibyte;
    // Each GPU can hold the largest unit and what it needs for a moment.
    const ModelWeight weight = weigh(question.model->shape, question.workload);
    const LayerShare one{1, true, true, 0, 0, 0, 1};
    const std::int64_t least =
        device_memory(question.model->config, weight, question.workload, Layout{}, one, {}).total() +
        4 * (weight.outside + weight.block);
    for (PlanDevice& device : question.devices) device.limit = least + gibibyte * draw.between(0, 3);
    const auto plan = plan_inference(question);
    ASSERT_TRUE(plan) << seed;
    EXPECT_TRUE(plan->fits()) << seed << " " << plan->refusal->reason;
    if (plan->layout.scheme == Scheme::layer_split) ++split;
  }
  EXPECT_GT(split, 50);
}

TEST(InferencePlan, WhereNoMemoryIsKnownTheLayersAreSharedOutEvenly) {
  for (const spec::MapRule rule : {spec::MapRule::balanced, spec::MapRule::balanced_low_0}) {
    Draw draw(7);
    Question question = random_question(draw, Work::inference);
    question.devices = gpus({unknown_limit, unknown_limit});
    question.map = spec::DeviceMap{rule};
    question.as_stages = true;
    question.detail = Detail::plan;
    const auto plan = plan_inference(question);
    ASSERT_TRUE(plan) << plan.error().what;
    EXPECT_TRUE(plan->fits());
    for (const RankPlan& rank : plan->ranks) EXPECT_FALSE(rank.limit_is_known());
    if (rule == spec::MapRule::balanced) {
      EXPECT_GT(plan->ranks[0].layers->end_block, 0U);
      EXPECT_GT(plan->ranks[1].layers->end_block, plan->ranks[1].layers->first_block);
    }
  }
}

TEST(InferencePlan, ATiedEmbeddingIsThereOnceOnOneDeviceAndTwiceOnTwo) {
  int apart = 0;
  for (unsigned seed = 0; seed < rounds; ++seed) {
    Draw draw(seed);
    Question question = random_question(draw, Work::inference);
    const spec::ModelConfig& config = question.model->config;
    if (!config.tied) continue;
    question.workload.weights = WeightType::bfloat16;
    question.workload.packed.reset();
    const ModelWeight weight = weigh(question.model->shape, WeightType::bfloat16);
    question.devices = gpus({std::int64_t{1} << 50});
    const auto alone = plan_inference(question);
    ASSERT_TRUE(alone && alone->fits()) << seed;
    EXPECT_EQ(alone->duplicated, 0) << seed;
    EXPECT_EQ(alone->ranks[0].memory[Component::weights], weight.parameter_bytes) << seed;
    question.devices = gpus({std::int64_t{1} << 50, std::int64_t{1} << 50});
    question.map = spec::DeviceMap{spec::MapRule::balanced};
    const auto both = plan_inference(question);
    ASSERT_TRUE(both) << seed;
    const auto first = both->map->find(config.position_kind == spec::PositionKind::learned ? "transformer.wte" : "model.embed_tokens");
    const bool separated = first != both->map->find("lm_head");
    EXPECT_EQ(both->duplicated, separated ? 2 * config.vocabulary * config.hidden : 0) << seed;
    apart += separated ? 1 : 0;
  }
  EXPECT_GT(apart, 5);
}

TEST(InferencePlan, AdvisedBatchesAreTheLargestThatFit) {
  int checked = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    Draw draw(seed);
    Question question = random_question(draw, Work::inference);
    question.workload.new_tokens = std::max<std::int64_t>(question.workload.new_tokens, 1);
    question.devices.resize(1);
    const auto plan = plan_inference(question);
    ASSERT_TRUE(plan) << seed;
    if (!plan->fits()) continue;
    ASSERT_TRUE(plan->batches) << seed;
    question.micro_batch = plan->batches->generation;
    EXPECT_TRUE(plan_inference(question)->fits()) << seed;
    if (plan->batches->generation == 4096) continue;
    ++checked;
    ++*question.micro_batch;
    EXPECT_FALSE(plan_inference(question)->fits()) << seed;
  }
  EXPECT_GT(checked, 20);
}

TEST(InferencePlan, TheFewestGpusThatHoldAModelOfASize) {
  const auto needed = [](std::int64_t gigabytes, const std::vector<std::int64_t>& sizes) {
    Question question;
    question.model = std::make_shared<const spec::ModelDescription>(
        spec::model_of_size(gigabytes * 500'000'000, spec::ElementType::bfloat16).value());
    question.devices = gpus(sizes);
    return smallest_set(question).size();
  };
  const std::vector<std::int64_t> eight_of_40(8, 40 * gibibyte), four_of_80(4, 80 * gibibyte);
  EXPECT_EQ(needed(14, eight_of_40), 1U);
  EXPECT_EQ(needed(14, four_of_80), 1U);
  EXPECT_EQ(needed(140, eight_of_40), 4U);  // 130.4 GiB
  EXPECT_EQ(needed(140, four_of_80), 2U);
  EXPECT_EQ(needed(1000, eight_of_40), 0U);  // 931 GiB, and there are 320
  EXPECT_EQ(needed(1000, four_of_80), 0U);
  EXPECT_EQ(needed(30, {24 * gibibyte, 80 * gibibyte, 24 * gibibyte}), 1U);
}

}  // namespace
}  // namespace muster::plan
