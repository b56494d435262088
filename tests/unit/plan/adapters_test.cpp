// Low-rank adapters in the plan: whose sums are checked by hand, on a model small enough for that.
#include "plan/adapters.hpp"

#include <gtest/gtest.h>

#include "plan/memory_model.hpp"
#include "random_questions.hpp"

namespace muster::plan {
namespace {

using spec::ShardingStrategy;

// Linear layers of a block, [outputs, inputs]: q, o [64, 64]; k, v [32, 64]; gate, up [96, 64]; down [64, 96].
spec::ModelConfig small_llama(bool tied = false) {
  spec::ModelConfig config = spec::blank_config(spec::Family::llama);
  config.head_size = 16;
  config.heads = 4;
  config.kv_heads = 2;
  config.hidden = 64;
  config.intermediate = 96;
  config.layers = 3;
  config.vocabulary = 1000;
  config.positions = 1 << 14;
  config.tied = tied;
  return config;
}
constexpr std::int64_t sides_of_block = 2 * 128 + 2 * 96 + 3 * 160;  // inputs and outputs of all seven
constexpr std::int64_t block = 2 * 64 * 64 + 2 * 32 * 64 + 3 * 96 * 64 + 2 * 64;
constexpr std::int64_t embedding = 1000 * 64, last = 1000 * 64 + 64;
constexpr std::int64_t parameters = 3 * block + embedding + last;

Adapters beside(const spec::ModelConfig& config, const spec::AdapterOptions& options) {
  return adapters_beside(spec::build_shape(config, spec::ElementType::bfloat16), options).value();
}

DeviceMemory memory_of(const spec::ModelConfig& config, const Workload& work, const Layout& layout = {}) {
  const ModelWeight weight = weigh(spec::build_shape(config, spec::ElementType::bfloat16), work);
  return device_memory(config, weight, work, layout, whole_model(config, weight), MemoryConstants{});
}

Workload training_beside(const Adapters& adapters, WeightType type) {
  Workload work;
  work.work = Work::training;
  work.implementation = Implementation::muster;
  work.weights = type;
  work.adapters = adapters;
  work.sequence = 128;
  return work;
}

TEST(Adapters, AreAsLargeAsWhatTheyAreBeside) {
  const Adapters all = beside(small_llama(), {.rank = 8});
  EXPECT_EQ(all.parameters, 3 * 8 * sides_of_block);
  EXPECT_EQ(all.of_block, 8 * sides_of_block);
  EXPECT_EQ(all.block.ranks, (AdapterRanks{8, 8, 8, 8, 8, 8, 8}));
  EXPECT_EQ(all.before + all.after, 0);
}

TEST(Adapters, AreBesideTheNamedModulesAlone) {
  const Adapters some = beside(small_llama(), {.rank = 4, .targets = {"q_proj", "down_proj"}});
  EXPECT_EQ(some.parameters, 3 * 4 * (128 + 160));
  EXPECT_EQ(some.block.ranks, (AdapterRanks{.query = 4, .down = 4}));
}

TEST(Adapters, OfOneBlockAreCountedThereAndGiveTheLargestBlock) {
  const Adapters one = beside(small_llama(), {.rank = 4, .targets = {"model.layers.1.mlp.up_proj"}});
  EXPECT_EQ(one.parameters, 4 * 160);
  EXPECT_EQ(one.of_block, 4 * 160);
}

TEST(Adapters, SavedModulesAndMagnitudesAreTrainedBesides) {
  const Adapters whole = beside(small_llama(), {.rank = 4, .targets = {"o_proj"}, .saved_modules = {"lm_head"}});
  EXPECT_EQ(whole.parameters, 3 * 4 * 128 + 64000);
  EXPECT_EQ(whole.after, 64000);
  const Adapters decomposed = beside(small_llama(), {.rank = 4, .weight_decomposed = true, .targets = {"o_proj"}});
  EXPECT_EQ(decomposed.parameters, 3 * (4 * 128 + 64));
}

TEST(Adapters, BesideOneProductOfGpt2AreBesideItsQueriesKeysAndValues) {
  spec::ModelConfig config = spec::blank_config(spec::Family::gpt2);
  config.head_size = 16;
  config.heads = config.kv_heads = 4;
  config.hidden = 64;
  config.intermediate = 256;
  config.layers = 2;
  config.vocabulary = 1000;
  config.positions = 128;
  config.tied = true;
  const Adapters joined = beside(config, {.rank = 4, .targets = {"c_attn"}});
  EXPECT_EQ(joined.parameters, config.layers * 4 * 4 * config.hidden);
  EXPECT_EQ(joined.block.ranks, (AdapterRanks{.query = 4, .key = 4, .value = 4}));
}

TEST(Adapters, PublishedSizesOfRankSixteen) {
  // Llama-2-7B, all linear layers of its blocks.
  spec::ModelConfig config = spec::blank_config(spec::Family::llama);
  config.head_size = 128;
  config.heads = config.kv_heads = 32;
  config.hidden = 4096;
  config.intermediate = 11008;
  config.layers = 32;
  config.vocabulary = 32000;
  EXPECT_EQ(beside(config, {.rank = 16}).parameters, 39'976'960);
}

TEST(AdapterMemory, FrozenWeightsAreHeldInTheTypeOfComputingAndNothingElseOfThem) {
  const Adapters adapters = beside(small_llama(), {.rank = 8});
  for (const bool exact : {false, true})
    for (const auto& [type, width] : {std::pair{WeightType::float32, 4}, {WeightType::bfloat16, 2}}) {
      Workload work = training_beside(adapters, type);
      work.exact = exact;
      const DeviceMemory memory = memory_of(small_llama(), work);
      EXPECT_EQ(memory[Component::weights], width * parameters);
      for (const Component none : {Component::master, Component::gradients, Component::optimizer, Component::gathered})
        EXPECT_EQ(memory[none], 0) << name(none);
      // The copy that is computed with, masters, sums of gradients, two moments.
      EXPECT_EQ(memory[Component::adapters], adapters.parameters * (width + 4 + (exact ? 8 : 4) + 8));
    }
}

TEST(AdapterMemory, WhatIsTrainedAsAWholeIsHeldOnceByOurEngineAndTwiceByPeft) {
  const Adapters whole = beside(small_llama(), {.rank = 4, .targets = {"o_proj"}, .saved_modules = {"lm_head"}});
  Workload work = training_beside(whole, WeightType::bfloat16);
  const DeviceMemory ours = memory_of(small_llama(), work);
  EXPECT_EQ(ours[Component::weights], 2 * (parameters - 64000));
  EXPECT_EQ(ours[Component::adapters], whole.parameters * (2 + 4 + 4 + 8));
  work.implementation = Implementation::transformers;
  const DeviceMemory theirs = memory_of(small_llama(), work);
  EXPECT_EQ(theirs[Component::weights], 2 * parameters);
  EXPECT_EQ(theirs[Component::adapters], whole.parameters * (4 + 4 + 8));
}

TEST(AdapterMemory, ScaledOutputsAreComputedBesideTheirLayer) {
  const Workload plain = training_beside(beside(small_llama(), {.rank = 8}), WeightType::bfloat16);
  const Workload scaled =
      training_beside(beside(small_llama(), {.rank = 8, .weight_decomposed = true}), WeightType::bfloat16);
  EXPECT_GT(memory_of(small_llama(), scaled)[Component::activations],
            memory_of(small_llama(), plain)[Component::activations]);
}

TEST(AdapterMemory, ShardsHoldAPartOfTheFrozenWeightsAndOfTheStates) {
  const Adapters adapters = beside(small_llama(), {.rank = 8});
  for (const auto& [type, width] : {std::pair{WeightType::float32, 4}, {WeightType::bfloat16, 2}}) {
    const Workload work = training_beside(adapters, type);
    const Layout four{Scheme::fsdp, ShardingStrategy::full_shard, false, 4, 4};
    const DeviceMemory memory = memory_of(small_llama(), work, four);
    EXPECT_EQ(memory[Component::weights], width * parameters / 4);
    // float32 adapters are gathered from their masters.
    const std::int64_t copy = width == 4 ? 0 : width;
    EXPECT_EQ(memory[Component::adapters], adapters.parameters / 4 * (copy + 4 + 4 + 8));
  }
}

std::int64_t gathered_at(const StepRequest& request, std::string_view moment) {
  std::int64_t most = 0;
  for (const Moment& one : muster_training(request))
    if (one.name == moment) most = std::max(most, one.held[static_cast<std::size_t>(Holding::gathered)]);
  return most;
}

// Frozen units of 5000, 700 and 60 bytes; adapters of 10 parameters a block, 2 bytes each, with sums of 4.
TEST(AdapterMemory, FrozenUnitsAreGatheredWithTheirAdaptersAndHaveNoGradients) {
  StepRequest request;
  request.layers = 3;
  request.types = {2, 2};
  request.adapters = AdaptedBlock{{.query = 1}, 0};
  request.gathering = Gathering{{0, 10, 0}, false, 4, 2, false, {5000, 700, 60}};
  EXPECT_EQ(gathered_at(request, "embedding"), 5000 + 720);
  EXPECT_EQ(gathered_at(request, "forward pass"), 720 * 2);
  EXPECT_EQ(gathered_at(request, "backward pass of the loss"), 720 + 60);
  EXPECT_EQ(gathered_at(request, "backward pass of the last block"), 720 * 2 + 40);
  EXPECT_EQ(gathered_at(request, "backward pass of the first block"), 720 + 2 * 40);
  EXPECT_EQ(gathered_at(request, "backward pass of the embedding"), 40);
  request.tied = true;
  EXPECT_EQ(gathered_at(request, "backward pass of the loss"), 5000 + 720 + 60);
  // A half of the largest unit is on its way to each of two ranks.
  request.gathering->from_host = true;
  EXPECT_EQ(gathered_at(request, "embedding"), 5000 + 720 + 2500);
}

TEST(AdapterMemory, OfWhatBackwardNeedsOnlyNarrowRowsAreKept) {
  const spec::ModelConfig config = small_llama();
  Workload full = training_beside(beside(config, {.rank = 8}), WeightType::float32);
  full.adapters.reset();
  Workload adapted = training_beside(beside(config, {.rank = 8, .dropout = 0.1}), WeightType::float32);
  spec::ModelConfig deeper = config;
  deeper.layers = 23;
  const auto kept = [&](const Workload& work) {
    Workload deep = work;
    if (work.adapters) deep.adapters = beside(deeper, {.rank = 8, .dropout = 0.1});
    const DeviceMemory more = memory_of(deeper, deep), few = memory_of(config, work);
    const auto above = [](const DeviceMemory& memory) { return memory[Component::activations] + memory[Component::logits]; };
    return above(more) - above(few);
  };
  const std::int64_t narrow = (deeper.layers - config.layers) * adapted.sequence * 7 * 8 * std::int64_t{sizeof(float)};
  EXPECT_EQ(kept(adapted), kept(full) + narrow);
}

// Down: the activated row and what dropout leaves of it, its rank, two rows of the residual stream.
TEST(AdapterMemory, AnAdapterIsComputedBesideItsLayer) {
  StepRequest request;
  request.hidden = request.query = 64;
  request.kv = 32;
  request.heads = 4;
  request.intermediate = 96;
  request.layers = 1;
  request.types = {4, 4};
  request.sequence = 10;
  const auto forward = [&] {
    for (const Moment& one : muster_training(request))
      if (one.name == "forward pass") return one.held[static_cast<std::size_t>(Holding::activations)];
    return std::int64_t{0};
  };
  const std::int64_t plain = forward();
  request.adapters = AdaptedBlock{{.down = 8}, 0};
  EXPECT_EQ(forward() - plain, 10 * 4 * (8 + 64 + 8 + 64));  // narrow rows stay
  request.adapters->dropout = 0.1;
  EXPECT_EQ(forward() - plain, 10 * 4 * (8 + 64 + 8 + 96) + 10 * 8);  // and each row's key
}

TEST(AdapterMemory, GenerationHoldsTheAdapterInTheTypeOfComputing) {
  const Adapters adapters = beside(small_llama(), {.rank = 8});
  Workload work;
  work.implementation = Implementation::muster;
  work.weights = WeightType::bfloat16;
  const DeviceMemory without = memory_of(small_llama(), work);
  work.adapters = adapters;
  const DeviceMemory with = memory_of(small_llama(), work);
  EXPECT_EQ(with[Component::adapters], 2 * adapters.parameters);
  EXPECT_EQ(with[Component::weights], without[Component::weights]);
}

TEST(AdapterMemory, DevicesThatShareAModelShareItsAdapter) {
  Question question;
  question.model = described(small_llama());
  question.workload.implementation = Implementation::muster;
  question.workload.weights = WeightType::bfloat16;
  question.workload.adapters = beside(small_llama(), {.rank = 8});
  question.scheme = Scheme::layer_split;
  question.devices = gpus({gibibyte, gibibyte});
  const auto plan = make_plan(question);
  ASSERT_TRUE(plan) << to_string(plan.error());
  std::int64_t adapters = 0, weights = 0;
  for (const RankPlan& rank : plan->ranks) {
    EXPECT_GT(rank.memory[Component::adapters], 0);
    adapters += rank.memory[Component::adapters];
    weights += rank.memory[Component::weights];
  }
  EXPECT_EQ(adapters, 2 * question.workload.adapters->parameters);
  EXPECT_EQ(weights, 2 * parameters);
}

}  // namespace
}  // namespace muster::plan
