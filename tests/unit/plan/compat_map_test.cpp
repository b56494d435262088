// By hand what tests/peer/device_maps compares with the originals, and what they leave out: refusals.
#include "plan/compat_map.hpp"

#include <gtest/gtest.h>

#include "sample_models.hpp"

namespace muster::plan {
namespace {

const CompatRequest whole_layers{.whole_classes = {"LlamaDecoderLayer"}};

std::vector<Budget> gpus(std::initializer_list<std::int64_t> bytes) {
  std::vector<Budget> budgets;
  for (const std::int64_t size : bytes) budgets.push_back({on_gpu(static_cast<int>(budgets.size())), {size}});
  return budgets;
}

TEST(CompatMap, KeepsRoomForTheLargestLayerOnTheFirstGpu) {
  // embed_tokens 20, four layers of 10, norm 3, rotary_emb 2, lm_head 20. Of GPU 0's 60 bytes 20 stay free.
  const auto map = compat_map(small_llama(4, 20, false), whole_layers, gpus({60, 60}));
  ASSERT_TRUE(map);
  EXPECT_EQ(*map, (DeviceMap{{{"model.embed_tokens", on_gpu(0)},
                              {"model.layers.0", on_gpu(0)},
                              {"model.layers.1", on_gpu(0)},
                              {"model.layers.2", on_gpu(1)},
                              {"model.layers.3", on_gpu(1)},
                              {"model.norm", on_gpu(1)},
                              {"model.rotary_emb", on_gpu(1)},
                              {"lm_head", on_gpu(1)}}}));
}

TEST(CompatMap, PutsATiedHeadWhereItsEmbeddingIs) {
  const auto map = compat_map(small_llama(4, 20, true), whole_layers, gpus({60, 60}));
  ASSERT_TRUE(map);
  EXPECT_EQ(map->find("lm_head"), on_gpu(0));
  EXPECT_EQ(map->find("model.norm"), on_gpu(1));
}

TEST(CompatMap, UsesBudgetsInTheirOrderHoweverTheyAreListed) {
  std::vector<Budget> budgets = gpus({60, 60});
  const auto expected = compat_map(small_llama(4, 20, false), whole_layers, budgets);
  std::swap(budgets[0], budgets[1]);
  const auto map = compat_map(small_llama(4, 20, false), whole_layers, budgets);
  ASSERT_TRUE(map && expected);
  EXPECT_EQ(*map, *expected);
}

TEST(CompatMap, PutsOnDiskWhatNoBudgetHolds) {
  const auto map = compat_map(small_llama(2, 20, false), whole_layers, {});
  ASSERT_TRUE(map);
  EXPECT_EQ(*map, (DeviceMap{{{"", on_disk()}}}));
}

TEST(BalancedBudgets, AreAnEqualShareAndTheSlackOfOneBlock) {
  // 85 bytes: half is 42; one and a quarter of a block is 12.
  const auto budgets = balanced_budgets(small_llama(4, 20, false), whole_layers, gpus({60, 60}), false);
  ASSERT_TRUE(budgets);
  EXPECT_EQ(*budgets, gpus({54, 60}));
}

TEST(BalancedBudgets, LeaveOneGpuNinetyPercentWhereNobodyGaveALimit) {
  CompatRequest request = whole_layers;
  request.limits_given = false;
  auto budgets = balanced_budgets(small_llama(4, 20, false), request, gpus({101}), false);
  ASSERT_TRUE(budgets);
  EXPECT_EQ(budgets->front().bytes.value, 90);
  EXPECT_DOUBLE_EQ(budgets->front().fraction, 0.9 * 101 - 90);
  request.limits_given = true;
  budgets = balanced_budgets(small_llama(4, 20, false), request, gpus({101}), false);
  ASSERT_TRUE(budgets);
  EXPECT_EQ(*budgets, gpus({101}));
}

TEST(BalancedBudgets, NameTheErrorThatTheOriginalFailsWith) {
  const auto shape = small_llama(4, 20, false);
  const std::vector<Budget> shifted{{on_gpu(1), {60}}, {on_gpu(2), {60}}};
  const auto low = balanced_budgets(shape, whole_layers, shifted, true);
  ASSERT_FALSE(low);
  EXPECT_EQ(low.error().kind, Error::Kind::refused);
  EXPECT_EQ(low.error().what,
            "accelerate itself fails here with KeyError: 0: balanced_low_0 looks budgets up by the numbers 0, 1, … and "
            "the GPUs are 1, 2");
  EXPECT_NE(low.error().remedy.find("default planner"), std::string::npos);

  const auto disk = balanced_budgets(shape, whole_layers, {{on_gpu(0), {60}}, {on_disk(), {60}}}, false);
  ASSERT_FALSE(disk);
  EXPECT_NE(disk.error().what.find("RuntimeError"), std::string::npos);

  const CompatRequest absent{.rules = CompatRules::transformers, .whole_classes = {"GPT2Block"}};
  const auto none = balanced_budgets(shape, absent, gpus({60, 60}), false);
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().what.find("transformers itself fails here with ValueError"), std::string::npos);
  EXPECT_NE(none.error().what.find("GPT2Block"), std::string::npos);
}

TEST(CompatMap, RefusesWhatCannotBeMeant) {
  const auto shape = small_llama(2, 20, false);
  const auto what = [&](const CompatRequest& request) {
    const auto map = compat_map(shape, request, gpus({60}));
    return map ? std::string() : map.error().what;
  };
  EXPECT_EQ(what({.special_elements = {{"model.embed.weight", 2}}}),
            "the model has no tensor \"model.embed.weight\" to give a size to");
  EXPECT_EQ(what({.element_bytes = 0.3}), "dtype: 0.3 bytes per element is not the size of a type");
  EXPECT_EQ(what({.special_elements = {{"lm_head.weight", -1}}}),
            "lm_head.weight: -1 bytes per element is not the size of a type");
  EXPECT_NE(what({.rules = CompatRules::transformers, .element_bytes = 2}).find("no dtype beside"), std::string::npos);
  EXPECT_NE(what({.rules = CompatRules::transformers, .fallback_allocation = true}).find("fallback"),
            std::string::npos);

  EXPECT_EQ(compat_map(small_llama(1, std::int64_t{1} << 60, false), {}, {}).error().what,
            "the model's tensors take more than 2^58 bytes");

  const auto budgets = sequential_budgets({}, {{on_gpu(0), {1}}, {on_gpu(0), {2}}, {on_cpu(), {-3}}});
  ASSERT_FALSE(budgets);
  EXPECT_EQ(budgets.error().what, "0 has two budgets; give it one\nthe budget of cpu is -3 bytes; give 0 or more");
}

TEST(SequentialBudgets, AreInTheOrderOfUse) {
  const auto budgets = sequential_budgets({}, {{on_disk(), {1}}, {on_cpu(), {2}}, {on_gpu(10), {3}}, {on_gpu(2), {4}}});
  ASSERT_TRUE(budgets);
  EXPECT_EQ(*budgets, (std::vector<Budget>{{on_gpu(2), {4}}, {on_gpu(10), {3}}, {on_cpu(), {2}}, {on_disk(), {1}}}));
}

}  // namespace
}  // namespace muster::plan
