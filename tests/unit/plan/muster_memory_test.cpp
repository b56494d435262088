// What a rank of muster's engine holds while it trains: identities over a grid of models, types and layouts.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>

#include "plan/memory_model.hpp"
#include "random_questions.hpp"
#include "spec/codec.hpp"

namespace muster::plan {
namespace {

using spec::Recomputation;
using spec::ShardingStrategy;

spec::ModelConfig grouped(spec::Family family, bool tied) {
  spec::ModelConfig config = spec::blank_config(family);
  config.head_size = 64;
  config.kv_heads = 2;
  config.heads = 8;
  config.hidden = 512;
  config.intermediate = 1536;
  config.layers = 6;
  config.vocabulary = 32000;
  config.positions = 1 << 17;
  config.tied = tied;
  return config;
}

spec::ModelConfig grouped_llama(bool tied) { return grouped(spec::Family::llama, tied); }

spec::ModelConfig small_gpt2() {
  spec::ModelConfig config = grouped(spec::Family::gpt2, true);
  config.dropout = {};
  config.kv_heads = config.heads;
  config.intermediate = 4 * config.hidden;
  config.positions = 8192;
  return config;
}

// Counted from the tensors' names, apart from how the planner sorts them.
struct Units {
  explicit Units(const spec::ModelConfig& config) {
    const spec::ModelShape shape = spec::build_shape(config, spec::ElementType::float32);
    for (std::size_t i = 0; i < shape.tensors.size(); ++i) {
      const spec::TensorShape& tensor = shape.tensors[i];
      if (tensor.same_as || tensor.kind != spec::TensorKind::parameter) continue;
      const std::string path = shape.path(spec::TensorId{i});
      const auto holds = [&](const char* part) { return path.find(part) != std::string::npos; };
      if (holds(".layers.") || holds(".h."))
        block += tensor.elements();
      else
        (holds("embed_tokens") || holds("wte") || holds("wpe") ? embedding : last) += tensor.elements();
    }
    all = embedding + block + last;
    block /= config.layers;
  }
  std::int64_t embedding = 0, block = 0, last = 0, all = 0;
};

struct Case {
  spec::ModelConfig config;
  Workload work;
  Layout layout;

  DeviceMemory memory() const {
    const ModelWeight weight = weigh(spec::build_shape(config, spec::ElementType::bfloat16), work.weights);
    return device_memory(config, weight, work, layout, whole_model(config, weight), MemoryConstants{});
  }
  std::int64_t width() const { return work.mixed_precision ? 2 : 4; }
  std::int64_t sum_width() const { return work.exact ? 8 : 4; }
};

std::ostream& operator<<(std::ostream& out, const Case& one) {
  return out << strategy_words(one.layout) << " over " << one.layout.world << ", " << one.width() << " bytes, exact "
             << one.work.exact << ", " << spec::write(one.work.recomputation) << ", tied " << one.config.tied
             << ", cpu " << one.layout.on_cpu;
}

// Every model in every type, however it recomputes, on GPUs and CPUs, one rank that holds everything.
void for_each_work(const std::function<void(Case)>& check) {
  for (const spec::ModelConfig& config : {grouped_llama(false), grouped_llama(true), small_gpt2()})
    for (const bool mixed : {false, true})
      for (const bool exact : {false, true})
        for (const bool on_cpu : {false, true})
          for (const Recomputation how : {Recomputation::none, Recomputation::selective, Recomputation::full}) {
            Case made{config, {}, {}};
            made.work.work = Work::training;
            made.work.implementation = Implementation::muster;
            made.work.weights = WeightType::float32;
            made.work.mixed_precision = mixed;
            made.work.exact = exact;
            made.work.recomputation = how;
            made.work.micro_batch = 4;
            made.layout.on_cpu = on_cpu;
            check(made);
          }
}

Layout sharded(const Case& of, ShardingStrategy how, std::int64_t world, bool offload = false) {
  return {Scheme::fsdp, how, offload, world, world, of.layout.on_cpu};
}

TEST(MusterMemory, AReplicaHoldsWeightsMastersSumsAndMoments) {
  for_each_work([](Case one) {
    const std::int64_t parameters = Units(one.config).all;
    const DeviceMemory alone = one.memory();
    EXPECT_EQ(alone[Component::weights], one.width() * parameters) << one;
    EXPECT_EQ(alone[Component::master], 4 * parameters) << one;
    EXPECT_EQ(alone[Component::gradients], one.sum_width() * parameters) << one;
    EXPECT_EQ(alone[Component::optimizer], 8 * parameters) << one;
    EXPECT_EQ(alone[Component::gathered], 0) << one;
    // Sums go over the ranks where they lie.
    one.layout.scheme = Scheme::ddp;
    one.layout.world = 4;
    DeviceMemory of_four = one.memory();
    EXPECT_GT(of_four[Component::nccl], 0) << one;
    of_four[Component::nccl] = 0;
    EXPECT_EQ(of_four.bytes, alone.bytes) << one;
  });
}

TEST(MusterMemory, OnePartIsAReplica) {
  for_each_work([](Case one) {
    const DeviceMemory replica = one.memory();
    for (const ShardingStrategy how : {ShardingStrategy::full_shard, ShardingStrategy::shard_grad_op,
                                       ShardingStrategy::hybrid_shard, ShardingStrategy::no_shard}) {
      one.layout = sharded(one, how, 1);
      EXPECT_EQ(one.memory().bytes, replica.bytes) << one;
    }
  });
}

TEST(MusterMemory, AShardIsOnePartOfEveryState) {
  for_each_work([](Case one) {
    for (const std::int64_t world : {2, 3, 8}) {
      one.layout = sharded(one, ShardingStrategy::full_shard, world);
      const std::int64_t part = (Units(one.config).all + world - 1) / world;
      const DeviceMemory memory = one.memory();
      EXPECT_EQ(memory[Component::weights], one.width() == 4 ? 0 : one.width() * part) << one;
      EXPECT_EQ(memory[Component::master], 4 * part) << one;
      EXPECT_EQ(memory[Component::gradients], one.sum_width() * part) << one;
      EXPECT_EQ(memory[Component::optimizer], 8 * part) << one;
      EXPECT_EQ(memory[Component::buckets], 0) << one;
    }
  });
}

// What is whole where memory is highest: in parameters, where these stay as long as they can, and in gradients.
struct Whole {
  std::int64_t parameters = 0, staying = 0, gradients = 0;
};

TEST(MusterMemory, WhatIsGatheredFollowsFromTheMomentThatDecides) {
  std::map<std::string_view, int> seen;
  for_each_work([&](Case one) {
    const Units units(one.config);
    const std::int64_t shared = one.config.tied ? units.embedding : 0, all = one.config.layers * units.block;
    const std::map<std::string_view, Whole> moments{
        {"backward pass of the loss",
         {shared + units.last + units.block, shared + units.last + all, shared + units.last}},
        {"backward pass of the last block", {2 * units.block, all, shared + units.block + units.last}},
        {"backward pass of the block before the last", {2 * units.block, all - units.block, shared + 2 * units.block}},
        {"gathering of the head", {shared + units.block + 2 * units.last, shared + all + 2 * units.last, 0}}};
    for (const std::int64_t sequence : {16, 256, 4096})
      for (const ShardingStrategy how : {ShardingStrategy::full_shard, ShardingStrategy::shard_grad_op}) {
        one.work.sequence = sequence;
        one.layout = sharded(one, how, 4);
        const DeviceMemory memory = one.memory();
        ++seen[memory.moment];
        ASSERT_TRUE(moments.contains(memory.moment)) << memory.moment;
        const Whole& whole = moments.at(memory.moment);
        const std::int64_t parameters = how == ShardingStrategy::shard_grad_op ? whole.staying : whole.parameters;
        EXPECT_EQ(memory[Component::gathered], one.width() * parameters + one.sum_width() * whole.gradients)
            << one << ", " << memory.moment;
      }
  });
  EXPECT_GE(seen.size(), 3U) << "the grid reaches few of the moments";
}

// Units of 1000, 100 and 10 parameters, 2 bytes each, with sums of 4.
std::map<std::string_view, std::int64_t> gathered_of(bool tied, std::int64_t layers, bool keeps) {
  StepRequest request;
  request.layers = layers;
  request.tied = tied;
  request.types = {2, 2};
  request.gathering = Gathering{{1000, 100, 10}, keeps, 4, 2, false};
  std::map<std::string_view, std::int64_t> found;
  for (const Moment& moment : muster_training(request))
    found[moment.name] = std::max(found[moment.name], moment.held[static_cast<std::size_t>(Holding::gathered)]);
  return found;
}

TEST(MusterMemory, UnitsComeAndGoWithTheVisits) {
  using Bytes = std::map<std::string_view, std::int64_t>;
  EXPECT_EQ(gathered_of(false, 3, false), (Bytes{{"embedding", 2 * 1100},
                                                 {"forward pass", 2 * 200},
                                                 {"backward pass of the loss", 2 * 110 + 4 * 10},
                                                 {"backward pass of the last block", 2 * 200 + 4 * 110},
                                                 {"backward pass of the block before the last", 2 * 200 + 4 * 200},
                                                 {"backward pass of the first block", 2 * 100 + 4 * 200},
                                                 {"backward pass of the embedding", 4 * 1100}}));
  // The head reads the embedding: it stays until then, and its gradient from then on.
  EXPECT_EQ(gathered_of(true, 3, false), (Bytes{{"embedding", 2 * 1100},
                                                {"forward pass", 2 * 1200},
                                                {"backward pass of the loss", 2 * 1110 + 4 * 1010},
                                                {"backward pass of the last block", 2 * 200 + 4 * 1110},
                                                {"backward pass of the block before the last", 2 * 200 + 4 * 1200},
                                                {"backward pass of the first block", 2 * 100 + 4 * 1200},
                                                {"backward pass of the embedding", 4 * 1100}}));
  // One block has none beside it.
  EXPECT_EQ(gathered_of(false, 1, false), (Bytes{{"embedding", 2 * 1100},
                                                 {"forward pass", 2 * 110},
                                                 {"backward pass of the loss", 2 * 110 + 4 * 10},
                                                 {"backward pass of the last block", 2 * 100 + 4 * 110},
                                                 {"backward pass of the first block", 2 * 100 + 4 * 110},
                                                 {"backward pass of the embedding", 4 * 1100}}));
  // What is kept goes with its last visit.
  EXPECT_EQ(gathered_of(false, 3, true), (Bytes{{"embedding", 2 * 1100},
                                                {"forward pass", 2 * 310},
                                                {"backward pass of the loss", 2 * 310 + 4 * 10},
                                                {"backward pass of the last block", 2 * 300 + 4 * 110},
                                                {"backward pass of the block before the last", 2 * 200 + 4 * 200},
                                                {"backward pass of the first block", 2 * 100 + 4 * 200},
                                                {"backward pass of the embedding", 4 * 1100}}));
}

TEST(MusterMemory, ARankNeedsLessTheMoreThereAre) {
  for_each_work([](Case one) {
    for (const ShardingStrategy how : {ShardingStrategy::full_shard, ShardingStrategy::shard_grad_op})
      for (const bool offload : {false, true}) {
        std::int64_t before = std::numeric_limits<std::int64_t>::max();
        for (const std::int64_t world : {2, 4, 8, 16, 64}) {
          one.layout = sharded(one, how, world, offload);
          const DeviceMemory memory = one.memory();
          EXPECT_LT(memory.peak() + memory.host, before) << one;
          before = memory.peak() + memory.host;
        }
      }
  });
}

TEST(MusterMemory, AGroupOfAHybridShardsAsIfItWereAloneWithThreeCommunicators) {
  for_each_work([](Case one) {
    one.layout = sharded(one, ShardingStrategy::full_shard, 4);
    DeviceMemory of_four = one.memory();
    of_four[Component::nccl] *= 3;
    one.layout.sharding = ShardingStrategy::hybrid_shard;
    one.layout.world = 16;
    one.layout.shard_group = 4;
    EXPECT_EQ(one.memory().bytes, of_four.bytes) << one;
  });
}

TEST(MusterMemory, OffloadMovesTheStatesOfGpusAndNothingOfCpuRanks) {
  for_each_work([](Case one) {
    for (const std::int64_t world : {2, 8}) {
      one.layout = sharded(one, ShardingStrategy::full_shard, world);
      const DeviceMemory kept = one.memory();
      one.layout.offload = true;
      const DeviceMemory offloaded = one.memory();
      const std::int64_t states =
          kept[Component::weights] + kept[Component::master] + kept[Component::gradients] + kept[Component::optimizer];
      if (one.layout.on_cpu) {
        EXPECT_EQ(offloaded.bytes, kept.bytes) << one;
        EXPECT_EQ(offloaded.host, 0) << one;
        continue;
      }
      EXPECT_EQ(offloaded.host, states) << one;
      // One part of the largest unit is on its way.
      const Units units(one.config);
      const std::int64_t largest = std::max({units.embedding, units.block, units.last});
      const std::int64_t part = (largest + world - 1) / world * std::max(one.width(), one.sum_width());
      EXPECT_EQ(offloaded.peak(), kept.peak() - states + part) << one;
    }
  });
}

// More layers add their states and what their tapes keep, and no more of what comes and goes.
TEST(MusterMemory, ABlockAddsItsStatesAndWhatItsTapeKeeps) {
  for_each_work([](Case one) {
    one.work.sequence = 8192;
    one.config.layers = 40;
    Case deeper = one;
    deeper.config.layers = 41;
    ASSERT_EQ(one.memory().moment, deeper.memory().moment) << one;
    const spec::ModelConfig& config = one.config;
    const bool gated = config.gated;
    const std::int64_t h = config.hidden, q = config.query_width(), v = config.kv_width(), f = config.intermediate;
    std::int64_t numbers = 4 * h + 3 * q + 4 * v + (gated ? 2 : 1) * f, log_sums = 4 * config.heads;
    if (one.work.recomputation == Recomputation::selective) numbers = 2 * h + 2 * q + 2 * v + (gated ? 2 : 1) * f;
    if (one.work.recomputation == Recomputation::full) numbers = h, log_sums = 0;
    const std::int64_t tokens = one.work.micro_batch * one.work.sequence;
    const std::int64_t states = Units(config).block * (one.width() + 4 + one.sum_width() + 8);
    EXPECT_EQ(deeper.memory().peak() - one.memory().peak(), states + tokens * (numbers * one.width() + log_sums))
        << one;
  });
}

TEST(MusterMemory, WhatIsRecomputedIsNotKept) {
  for_each_work([](Case one) {
    if (one.work.recomputation != Recomputation::none) return;
    const std::int64_t kept = one.memory().peak();
    one.work.recomputation = Recomputation::selective;
    const std::int64_t selective = one.memory().peak();
    one.work.recomputation = Recomputation::full;
    EXPECT_LT(selective, kept) << one;
    EXPECT_LT(one.memory().peak(), selective) << one;
  });
}

TEST(MusterMemory, LogitsAreThoseOfTheRowsThatTheHeadTakes) {
  for_each_work([](Case one) {
    one.work.recomputation = Recomputation::full;
    one.config.vocabulary = 4'000'000;
    one.config.layers = 2;
    const DeviceMemory memory = one.memory();
    ASSERT_EQ(memory.moment, "backward pass of the loss") << one;
    const std::int64_t rows = one.layout.on_cpu ? 256 : 2048;
    const std::int64_t copies = one.work.exact && !one.layout.on_cpu ? 2 : 1;
    EXPECT_EQ(memory[Component::logits], rows * one.config.vocabulary * one.width() * copies) << one;
  });
}

TEST(MusterMemory, AStateOfBfloat16AloneIsEightBytesAParameter) {
  Case narrow{grouped_llama(true), {}, {}};
  narrow.work.work = Work::training;
  narrow.work.implementation = Implementation::muster;
  narrow.work.weights = WeightType::bfloat16;
  const auto state = [&] {
    const DeviceMemory memory = narrow.memory();
    return memory[Component::weights] + memory[Component::master] + memory[Component::gradients] +
           memory[Component::optimizer];
  };
  const std::int64_t parameters = Units(narrow.config).all;
  EXPECT_EQ(state(), 8 * parameters);
  narrow.layout.on_cpu = true;
  EXPECT_EQ(state(), 10 * parameters);
  narrow.layout = {.scheme = Scheme::fsdp, .world = 4};
  EXPECT_NEAR(static_cast<double>(state()), 2.0 * static_cast<double>(parameters), 16);
}

}  // namespace
}  // namespace muster::plan
