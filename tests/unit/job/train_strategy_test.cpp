// From --strategy to what the ranks of a training run are told.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "job/train/micro_batch_cache.hpp"
#include "job/train/train.hpp"
#include "testing/environment_variable.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::job {
namespace {

using spec::ShardingStrategy;

class TrainStrategy : public ::testing::Test {
 protected:
  // The built-in job with these settings. memory: of each of four GPUs, in MiB; absent: there are none.
  Result<TrainPlan> plan(std::vector<std::string> settings, std::optional<std::int64_t> memory = std::nullopt) {
    settings.emplace_back("training.batch_size=24");
    settings.emplace_back("model.path=builtin:llama-0.2m");
    settings.emplace_back("data.path=builtin:arithmetic");
    spec::Sources given;
    for (const std::string& setting : settings) given.overrides.push_back(spec::parse_override(setting).value());
    auto resolved = spec::resolve(spec::Schema(), given);
    if (!resolved) return resolved.error();
    auto settled = settle_training_settings(std::move(*resolved));
    if (!settled) return settled.error();
    host::HostSources sources;
    const std::string gpus =
        memory
            ? fmt::format("[{{count: 4, memory_total: {}MiB, memory_used: 0, compute_capability: \"9.0\"}}]", *memory)
            : "[]";
    sources.inventory_file = folder_.write("gpus.yaml", fmt::format("gpus: {}\n", gpus_.value_or(gpus)));
    sources.lease_folder = folder_.path() / "leases";
    host::Host host(std::move(sources));
    return plan_training(host, {std::move(*settled), host::Purpose::plan}, {});
  }

  wire::ShardingOptions sharding(std::vector<std::string> settings, std::optional<std::int64_t> memory = std::nullopt) {
    const auto made = plan(std::move(settings), memory);
    if (!made || !made->plan.fits()) {
      ADD_FAILURE() << (made ? made->plan.refusal->reason : made.error().what);
      return {};
    }
    return made->task().sharding;
  }

  std::optional<std::string> gpus_;  // other ones than four that are alike
  testing::ScratchFolder folder_;
  testing::EnvironmentVariable cache_{"MUSTER_CACHE", folder_.path().string()};
  testing::EnvironmentVariable no_outer_lease_{"MUSTER_LEASE", std::nullopt};
  testing::EnvironmentVariable allocator_{"PYTORCH_CUDA_ALLOC_CONF", std::nullopt};
};

constexpr std::int64_t roomy = 40 << 10;

TEST_F(TrainStrategy, RanksAreToldHowTheStateIsLaidOverThem) {
  const wire::ShardingOptions everything;
  const std::string fsdp = "distributed.strategy=fsdp", how = "distributed.fsdp_sharding_strategy=";
  EXPECT_EQ(sharding({"distributed.strategy=ddp"}, roomy), everything);
  EXPECT_EQ(sharding({}, roomy), everything);
  EXPECT_EQ(sharding({fsdp}, roomy), (wire::ShardingOptions{ShardingStrategy::full_shard, 1, false}));
  EXPECT_EQ(sharding({fsdp, how + "shard_grad_op"}, roomy),
            (wire::ShardingOptions{ShardingStrategy::shard_grad_op, 1, false}));
  EXPECT_EQ(sharding({fsdp, how + "no_shard"}, roomy), everything);
  EXPECT_EQ(sharding({fsdp, how + "hybrid_shard"}, roomy),
            (wire::ShardingOptions{ShardingStrategy::hybrid_shard, 4, false}));
  EXPECT_EQ(sharding({fsdp, how + "hybrid_shard", "distributed.fsdp_group_size=2"}, roomy),
            (wire::ShardingOptions{ShardingStrategy::hybrid_shard, 2, false}));
  EXPECT_EQ(sharding({fsdp, "distributed.fsdp_cpu_offload=true", "distributed.num_gpus=1"}, roomy),
            (wire::ShardingOptions{ShardingStrategy::full_shard, 1, true}));
}

TEST_F(TrainStrategy, HowToShardIsHeededWhereTheStrategyIsLeftOpen) {
  const std::string how = "distributed.fsdp_sharding_strategy=";
  EXPECT_EQ(sharding({how + "shard_grad_op"}, roomy), (wire::ShardingOptions{ShardingStrategy::shard_grad_op, 1, false}));
  EXPECT_EQ(sharding({how + "hybrid_shard", "distributed.fsdp_group_size=2", "distributed.ranks=4"}),
            (wire::ShardingOptions{ShardingStrategy::hybrid_shard, 2, false}));
  EXPECT_EQ(sharding({how + "shard_grad_op", "distributed.ranks=1"}), wire::ShardingOptions{});
}

TEST_F(TrainStrategy, OneRankMayBeCalledDdp) {
  EXPECT_EQ(sharding({"distributed.strategy=ddp", "distributed.ranks=1"}), wire::ShardingOptions{});
  EXPECT_EQ(sharding({"distributed.strategy=ddp", "distributed.num_gpus=1"}, roomy), wire::ShardingOptions{});
}

TEST_F(TrainStrategy, WhatIsNotDistributedIsOneRankOnOneDevice) {
  const auto on_gpus = plan({"distributed.enabled=false"}, roomy), on_cpu = plan({"distributed.enabled=false"});
  ASSERT_TRUE(on_gpus && on_cpu);
  EXPECT_EQ(on_gpus->job.ranks, 1);
  EXPECT_EQ(on_gpus->job.selection->ids.size(), 1u);
  EXPECT_EQ(on_cpu->job.ranks, 1);  // where the built-in job would have two
  const auto chosen = plan({"use_multi_gpu=False", "distributed.gpu_ids=[2]"}, roomy);
  ASSERT_TRUE(chosen) << chosen.error().what;
  EXPECT_EQ(texts_of(chosen->job.selection->ids), std::vector<std::string>{"2"});
  const auto many = plan({"distributed.enabled=false", "distributed.ranks=2"});
  ASSERT_FALSE(many);
  EXPECT_NE(many.error().what.find("distributed.enabled is false, but 2 ranks are asked for"), std::string::npos);
}

TEST_F(TrainStrategy, TheRanksOfOneHostMeetWhereTheyAreTold) {
  const auto made = plan({"distributed.master_port=29501", "distributed.ranks=2"});
  ASSERT_TRUE(made) << made.error().what;
  EXPECT_EQ(made->job.store.port, 29501);
  EXPECT_FALSE(made->job.store.address);
}

TEST_F(TrainStrategy, OfMoreGpusThanAreNeededTheEmptiestAreTaken) {
  gpus_ = "[{count: 1, memory_total: 40GiB, memory_used: 31GiB}, {count: 3, memory_total: 40GiB, memory_used: 0}]";
  const auto made = plan({"distributed.num_gpus=3"}, roomy);
  ASSERT_TRUE(made) << made.error().what;
  EXPECT_EQ(made->device.substr(0, 14), "3 GPUs (1,2,3)");
}

TEST_F(TrainStrategy, CpuRanksShardWhereThatIsAskedFor) {
  EXPECT_EQ(sharding({"distributed.ranks=3"}), wire::ShardingOptions{});
  EXPECT_EQ(sharding({"distributed.ranks=3", "distributed.strategy=fsdp"}),
            (wire::ShardingOptions{ShardingStrategy::full_shard, 1, false}));
  EXPECT_EQ(sharding({"distributed.ranks=3", "distributed.strategy=fsdp", "distributed.fsdp_cpu_offload=true"}),
            (wire::ShardingOptions{ShardingStrategy::full_shard, 1, true}));
  EXPECT_EQ(sharding({"distributed.ranks=1", "distributed.fsdp_cpu_offload=true"}),
            (wire::ShardingOptions{ShardingStrategy::full_shard, 1, true}));
}

TEST_F(TrainStrategy, RanksThatShareAGpuShardAsOthersDo) {
  const auto made = plan({"distributed.num_gpus=1", "distributed.ranks=4", "distributed.strategy=fsdp"}, roomy);
  ASSERT_TRUE(made) << made.error().what;
  EXPECT_EQ(made->plan.layout.world, 4);
  EXPECT_EQ(made->task().sharding.kind, ShardingStrategy::full_shard);
  EXPECT_EQ(made->device.substr(0, 5), "1 GPU");
}

TEST_F(TrainStrategy, AutoShardsWhatDoesNotFitWhole) {
  const std::vector<std::string> settings{"training.micro_batch_size=1"};
  const auto whole = plan(settings, roomy);
  ASSERT_TRUE(whole) << whole.error().what;
  ASSERT_EQ(whole->plan.layout.scheme, plan::Scheme::ddp);
  const std::int64_t needed = whole->plan.ranks[0].memory.total() >> 20;
  EXPECT_EQ(sharding(settings, needed + 1), wire::ShardingOptions{});
  EXPECT_EQ(sharding(settings, needed), (wire::ShardingOptions{ShardingStrategy::full_shard, 1, false}));
}

TEST_F(TrainStrategy, ARunBeginsWithThePassesThatAnEarlierOneCameTo) {
  const auto passes = [&](std::vector<std::string> settings) {
    const auto made = plan(std::move(settings), roomy);
    return made ? std::pair(made->task().micro_batch, made->task().recompute)
                : std::pair(std::int64_t{0}, spec::Recomputation{});
  };
  const auto first = plan({}, roomy);
  ASSERT_TRUE(first) << first.error().what;
  ASSERT_EQ(first->task().micro_batch, 6);  // 24 sequences on four GPUs
  const KnownPasses known(folder_.path());
  known.keep(*first, first->task(), {3, spec::Recomputation::none});
  const auto again = plan({}, roomy);
  ASSERT_TRUE(again) << again.error().what;
  EXPECT_EQ(again->task().micro_batch, 3);
  EXPECT_EQ(again->plan.workload.micro_batch, 3);
  EXPECT_EQ(again->plan.workload.accumulation, 2);
  EXPECT_EQ(again->task().identity, first->task().identity);
  EXPECT_EQ(again->plan.reasons.back(), first->plan.reasons.back());
  ASSERT_FALSE(again->notes.empty());
  EXPECT_NE(again->notes.back().find("3 sequences a pass"), std::string::npos) << again->notes.back();
  EXPECT_EQ(passes({"training.micro_batch_size=6"}).first, 6);
  EXPECT_EQ(passes({"training.gradient_checkpointing=full"}).first, 6);
  EXPECT_EQ(passes({"distributed.strategy=fsdp"}).first, 6);
  EXPECT_EQ(passes({"training.sequence_length=64"}).first, 6);
  known.keep(*again, again->task(), {4, spec::Recomputation::none});
  EXPECT_EQ(passes({}).first, 4);  // and then two
  known.keep(*again, again->task(), {1, spec::Recomputation::full});
  EXPECT_EQ(passes({}), std::pair(std::int64_t{1}, spec::Recomputation::full));
  for (const auto& file : std::filesystem::directory_iterator(folder_.path() / "passes"))
    std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now() - std::chrono::days(31));
  EXPECT_EQ(passes({}).first, 6);
  for (const auto& file : std::filesystem::directory_iterator(folder_.path() / "passes"))
    std::ofstream(file.path()) << "{\"micro_batch\": 0";
  EXPECT_EQ(passes({}).first, 6);
}

TEST_F(TrainStrategy, ARunGoesOnUnderAnyStrategy) {
  const auto identity = [&](std::vector<std::string> settings, std::optional<std::int64_t> memory = std::nullopt) {
    settings.emplace_back("training.mixed_precision=no");
    const auto made = plan(std::move(settings), memory);
    return made ? made->task().identity : made.error().what;
  };
  const std::string first = identity({"distributed.ranks=1"});
  EXPECT_EQ(first.size(), 64U) << first;
  EXPECT_EQ(identity({"distributed.ranks=3", "distributed.strategy=fsdp"}), first);
  EXPECT_EQ(identity({"distributed.ranks=2", "distributed.strategy=fsdp", "distributed.fsdp_cpu_offload=true"}), first);
  EXPECT_EQ(identity({"distributed.ranks=4", "distributed.strategy=fsdp",
                      "distributed.fsdp_sharding_strategy=hybrid_shard", "distributed.fsdp_group_size=2"}),
            first);
  EXPECT_EQ(identity({"training.gradient_checkpointing=full"}, roomy), first);
  EXPECT_NE(identity({"training.learning_rate=0.5"}), first);
}

TEST_F(TrainStrategy, WhatCannotBeIsRefusedWithWhatToType) {
  const auto remedy = [&](std::vector<std::string> settings, std::optional<std::int64_t> memory = std::nullopt) {
    const auto made = plan(std::move(settings), memory);
    return made ? "nothing was refused" : made.error().what + " → " + made.error().remedy;
  };
  const std::string fsdp = "distributed.strategy=fsdp", hybrid = "distributed.fsdp_sharding_strategy=hybrid_shard";
  const auto says = [](const std::string& text, std::string_view part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  says(remedy({"distributed.ranks=1", fsdp}), "--strategy single");
  says(remedy({"distributed.num_gpus=1", fsdp}, roomy), "--strategy single");
  says(remedy({fsdp, hybrid, "distributed.fsdp_group_size=3"}, roomy), "distributed.fsdp_group_size=2");
  says(remedy({fsdp, "distributed.fsdp_group_size=2"}, roomy), "hybrid_shard");
  says(remedy({"distributed.strategy=tensor"}, roomy),
       "tensor parallelism, which this version of muster does not have");
  says(remedy({"distributed.strategy=pipeline"}, roomy), "pipeline parallelism, which this version");
  says(remedy({"distributed.strategy=deepspeed"}, roomy), "DeepSpeed, which this version");
  says(remedy({"model.device_map=balanced"}, roomy), "--strategy fsdp");
  says(remedy({fsdp, "distributed.fsdp_cpu_offload=true", "distributed.fsdp_sharding_strategy=no_shard"}, roomy),
       "fsdp_sharding_strategy=full_shard");
}

TEST_F(TrainStrategy, RemediesAreWordsOfMusterTrain) {
  const std::vector<std::string> settings{"distributed.strategy=ddp", "training.micro_batch_size=1"};
  const std::int64_t needed = plan(settings, roomy)->plan.ranks[0].memory.total() >> 20;
  const auto refused = plan(settings, needed);
  ASSERT_TRUE(refused && !refused->plan.fits());
  const Error error = refusal_of(*refused);
  EXPECT_NE(error.remedy.find("muster train … --strategy fsdp (shard"), std::string::npos) << error.remedy;
}

}  // namespace
}  // namespace muster::job
