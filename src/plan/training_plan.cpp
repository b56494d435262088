// Training: the cheapest strategy that fits, with the largest micro-batch it allows.
#include <fmt/format.h>

#include <algorithm>

#include "base/byte_count.hpp"
#include "plan/critic_memory.hpp"
#include "plan/plan_parts.hpp"

namespace muster::plan {
namespace {

// More than this at once gains nothing, and a search must end.
constexpr std::int64_t most_sequences = 4096;

struct Attempt {
  Layout layout;
  std::string_view reason;
};

Error refuse(std::string what, std::string remedy) {
  return {Error::Kind::bad_input, std::move(what), std::move(remedy)};
}

class TrainingPlanner {
 public:
  explicit TrainingPlanner(const Question& question)
      : question_(question),
        world_(question.hosts * ranks_of_host(question)),
        weight_(weigh(question.model->shape, question.workload)) {
    if (question.critic) critic_weight_ = weigh(question.critic->shape, workload_of_critic(question.workload));
  }

  Result<Plan> plan() {
    if (auto problem = contradiction()) return *problem;
    std::optional<Plan> best;
    for (const Attempt& attempt : attempts()) {
      Plan tried = fill(attempt);
      if (tried.fits()) return tried;
      if (!best || tried.refusal->shortfall < best->refusal->shortfall) best = std::move(tried);
    }
    return *best;
  }

 private:
  std::int64_t data_ranks(const Layout& layout) const {
    return layout.scheme == Scheme::tensor || layout.scheme == Scheme::pipeline ? 1 : layout.world;
  }

  Layout layout(Scheme scheme, bool offload) const {
    return {scheme,        question_.sharding,       offload, scheme == Scheme::single ? 1 : world_,
            shard_group(), question_.devices.empty()};
  }

  std::int64_t shard_group() const { return question_.shard_group.value_or(ranks_of_host(question_)); }

  // ddp on one rank of muster's own engine.
  bool is_replica_alone() const {
    return question_.scheme == Scheme::ddp && world_ == 1 && !question_.offload &&
           question_.workload.implementation == Implementation::muster;
  }

  // In order of cost: what communicates least first. Host memory is a remedy, used only if requested.
  std::vector<Attempt> attempts() const {
    if (is_replica_alone()) return {{layout(Scheme::single, false), "one rank has nobody to share with"}};
    if (question_.scheme) return {{layout(*question_.scheme, question_.offload), "as asked"}};
    if (question_.offload) return {{layout(Scheme::fsdp, true), "offload is FSDP's"}};
    if (world_ > 1 && (question_.sharding != spec::ShardingStrategy::full_shard || question_.shard_group))
      return {{layout(Scheme::fsdp, false), "how to shard was said"}};
    if (question_.devices.empty() && world_ == 1)
      return {{layout(Scheme::single, false), "there is no GPU, one CPU rank computes"}};
    if (question_.devices.empty())
      return {{layout(Scheme::ddp, false), "there is no GPU, CPU ranks compute"},
              {layout(Scheme::fsdp, false), "whole training states do not fit the host's memory; shards do"}};
    std::vector<Attempt> list;
    if (world_ == 1) {
      list.push_back({layout(Scheme::single, false), "the whole training state fits one GPU"});
    } else {
      list.push_back(
          {layout(Scheme::ddp, false), "the whole training state fits each GPU, and DDP communicates least"});
      list.push_back({layout(Scheme::fsdp, false), "a whole training state does not fit one GPU; a shard of it does"});
    }
    return list;
  }

  std::optional<Error> sharding_contradiction() const {
    const bool own = question_.workload.implementation == Implementation::muster;
    const bool hybrid = question_.sharding == spec::ShardingStrategy::hybrid_shard;
    if (hybrid && world_ % shard_group() != 0)
      return refuse(fmt::format("{} ranks are not a whole number of groups of {} (distributed.fsdp_group_size)", world_,
                                shard_group()),
                    dividing_group(shard_group(), world_));
    if (own && question_.offload && question_.sharding == spec::ShardingStrategy::no_shard)
      return refuse("offload keeps shards in host memory, and no_shard makes none",
                    "distributed.fsdp_sharding_strategy=full_shard, or distributed.fsdp_cpu_offload=false");
    if (own && question_.scheme == Scheme::fsdp && world_ == 1 && !question_.offload)
      return refuse("the strategy is fsdp, and there is one rank: nothing to shard over",
                    "--strategy single, or distributed.fsdp_cpu_offload=true to keep the states in host memory");
    return std::nullopt;
  }

  // What to type instead of groups that do not divide the ranks.
  static std::string dividing_group(std::int64_t asked, std::int64_t ranks) {
    for (std::int64_t group = std::min(asked, ranks); group > 1; --group)
      if (ranks % group == 0) return fmt::format("distributed.fsdp_group_size={}", group);
    return "distributed.fsdp_sharding_strategy=full_shard";
  }

  // The nearest ones below and above, the nearer first.
  static std::string nearest_batches(std::int64_t batch, std::int64_t ranks) {
    const std::int64_t below = batch / ranks * ranks, above = below + ranks;
    if (below == 0) return fmt::format("--batch {}", above);
    const bool down = batch - below < above - batch;
    return fmt::format("--batch {}, or {}", down ? below : above, down ? above : below);
  }

  std::optional<Error> contradiction() const {
    const std::int64_t ranks =
        question_.scheme && (*question_.scheme == Scheme::tensor || *question_.scheme == Scheme::pipeline) ? 1 : world_;
    const bool own = question_.workload.implementation == Implementation::muster;
    if (question_.devices.empty() && world_ == 1 && question_.scheme && *question_.scheme != Scheme::single &&
        !(own && question_.scheme == Scheme::fsdp) && !is_replica_alone())
      return refuse(fmt::format("the strategy is {}, and there is no GPU", name(*question_.scheme)),
                    "--strategy single, or --gpus-from FILE for another machine (docs/inventory-file.md)");
    if (question_.scheme == Scheme::single && world_ > 1)
      return refuse(fmt::format("the strategy is single, and there are {} {}", world_,
                                question_.devices.empty() ? "ranks" : "GPUs"),
                    question_.devices.empty() ? "--ranks 1, or --strategy ddp" : "--num-gpus 1, or --strategy ddp");
    if (question_.workload.packed && !question_.workload.adapters)
      return refuse(fmt::format("weights in {} bits are not trained", weight_bits(question_.workload)),
                    "model.use_lora=true trains low-rank adapters beside them");
    if (auto problem = sharding_contradiction()) return problem;
    const spec::ModelConfig& config = question_.model->config;
    if (question_.scheme == Scheme::tensor && (config.kv_heads % world_ != 0 || config.intermediate % world_ != 0))
      return refuse(fmt::format("{} GPUs do not divide {} key-value heads and {} columns of the feed-forward layers",
                                world_, config.kv_heads, config.intermediate),
                    dividing_gpus(config, world_));
    if (question_.scheme == Scheme::pipeline && config.layers < world_)
      return refuse(fmt::format("{} layers cannot be shared out over {} GPUs", config.layers, world_), "fewer GPUs");
    if (!question_.batch) return std::nullopt;
    if (*question_.batch % ranks != 0)
      return refuse(fmt::format("a batch of {} {}s cannot be shared evenly by {} ranks", *question_.batch,
                                unit_word(question_.workload), ranks),
                    nearest_batches(*question_.batch, ranks));
    const std::int64_t per_rank = *question_.batch / ranks;
    if (question_.micro_batch && question_.accumulation && *question_.micro_batch * *question_.accumulation != per_rank)
      return refuse(fmt::format("a batch of {} is not {} {}s × {} passes × {} ranks", *question_.batch,
                                *question_.micro_batch, unit_word(question_.workload), *question_.accumulation, ranks),
                    "leave one of the three out");
    for (const auto& given : {question_.micro_batch, question_.accumulation})
      if (given && per_rank % *given != 0)
        return refuse(fmt::format("{} does not divide the {} {}s of a rank ({} of all / {} ranks)", *given, per_rank,
                                  unit_word(question_.workload), *question_.batch, ranks),
                      fmt::format("--batch {}", (per_rank / *given + 1) * *given * ranks));
    return std::nullopt;
  }

  DeviceMemory memory(const Layout& where, const Workload& workload) const {
    const auto of = [&](const spec::ModelConfig& config, const ModelWeight& weight, const Workload& work) {
      return device_memory(config, weight, work, where, whole_model(config, weight), question_.constants,
                           question_.memo.get());
    };
    const DeviceMemory memory = of(question_.model->config, weight_, workload);
    if (!question_.critic) return memory;
    const Workload beside = workload_of_critic(workload);
    return with_critic(memory, of(question_.critic->config, critic_weight_, beside), question_.constants);
  }

  std::int64_t least_limit() const {
    std::int64_t least = unknown_limit;
    for (std::size_t device = 0; device < question_.devices.size(); ++device)
      least = std::min(least, rank_limit(question_, device));
    return least;
  }

  // Passes that fill the batch with micro-batches of this size.
  Workload with(const Layout& where, std::int64_t micro_batch) const {
    Workload workload = question_.workload;
    workload.micro_batch = micro_batch;
    workload.accumulation = question_.accumulation.value_or(1);
    if (question_.batch && !question_.accumulation)
      workload.accumulation = *question_.batch / data_ranks(where) / micro_batch;
    return workload;
  }

  bool fits(const Layout& where, const Workload& workload) const {
    if (where.scheme == Scheme::pipeline) {
      const auto ranks = pipeline_ranks(where, workload);
      return std::ranges::all_of(ranks, [](const RankPlan& rank) { return rank.fits(); });
    }
    if (question_.devices.empty()) return cpu_rank(question_, memory(where, workload)).fits();
    return memory(where, workload).total() <= least_limit();
  }

  // The largest micro-batch that fits; if none does, 1.
  std::int64_t choose_micro_batch(const Layout& where) const {
    if (question_.micro_batch) return *question_.micro_batch;
    if (question_.detail == Detail::verdict && !question_.accumulation) return 1;
    // Nothing known would limit it.
    if (!question_.batch && question_.devices.empty() && !cpu_rank(question_, {}).limit_is_known()) return 1;
    if (!question_.batch)
      return std::max<std::int64_t>(
          largest_that(most_sequences, [&](std::int64_t size) { return fits(where, with(where, size)); }), 1);
    std::int64_t per_rank = *question_.batch / data_ranks(where);
    if (question_.accumulation) return per_rank / *question_.accumulation;
    std::int64_t best = 1;
    for (std::int64_t size = 1; size <= std::min(per_rank, most_sequences); ++size) {
      if (per_rank % size != 0) continue;
      if (!fits(where, with(where, size))) break;
      best = size;
    }
    return best;
  }

  // Stage i holds the activations of stages - i micro-batches; blocks are divided evenly, the first stages take one
  // more.
  std::vector<RankPlan> pipeline_ranks(const Layout& where, const Workload& workload) const {
    const spec::ModelConfig& config = question_.model->config;
    std::vector<RankPlan> ranks = equal_ranks(question_, {}, question_.hosts);
    const std::int64_t stages = world_;
    std::int64_t first = 0;
    for (std::int64_t stage = 0; stage < stages; ++stage) {
      LayerShare share;
      share.layers = config.layers / stages + (stage < config.layers % stages ? 1 : 0);
      share.embedding = stage == 0;
      share.head = stage == stages - 1;
      const std::int64_t inside = weight_.parameters - weight_.outside;
      const std::int64_t embedding = config.tied && stages > 1 ? config.vocabulary * config.hidden : 0;
      share.parameters = inside / config.layers * share.layers +
                         (share.embedding ? weight_.outside - weight_.after : 0) +
                         (share.head ? weight_.after + embedding : 0);
      share.parameter_bytes = bytes_of(share);
      share.adapters = adapters_of(share);
      share.in_flight = std::min(stages - stage, workload.accumulation);
      RankPlan& rank = ranks[static_cast<std::size_t>(stage)];
      rank.memory = device_memory(config, weight_, workload, where, share, question_.constants, question_.memo.get());
      rank.layers = LayerRange{on_gpu(rank.gpu->number), static_cast<std::size_t>(first),
                               static_cast<std::size_t>(first + share.layers), share.embedding, share.head};
      first += share.layers;
    }
    return ranks;
  }

  // In the type and packing of the weights; a tied embedding is there for the head as well.
  std::int64_t bytes_of(const LayerShare& share) const {
    const std::int64_t inside = weight_.parameter_bytes - weight_.held.embedding - weight_.held.last;
    const std::int64_t tied = question_.model->config.tied && !share.embedding ? weight_.held.embedding : 0;
    return inside / question_.model->config.layers * share.layers + (share.embedding ? weight_.held.embedding : 0) +
           (share.head ? weight_.held.last + tied : 0);
  }

  std::int64_t adapters_of(const LayerShare& share) const {
    if (!question_.workload.adapters) return 0;
    const Adapters& adapters = *question_.workload.adapters;
    const std::int64_t inside = adapters.parameters - adapters.before - adapters.after;
    return inside / question_.model->config.layers * share.layers + (share.embedding ? adapters.before : 0) +
           (share.head ? adapters.after : 0);
  }

  std::vector<RankPlan> ranks(const Layout& where, const Workload& workload) const {
    if (question_.devices.empty()) {
      std::vector<RankPlan> equal(static_cast<std::size_t>(ranks_of_host(question_)),
                                  cpu_rank(question_, memory(where, workload)));
      for (std::size_t i = 0; i < equal.size(); ++i) equal[i].rank = static_cast<int>(i);
      return equal;
    }
    if (where.scheme == Scheme::pipeline) return pipeline_ranks(where, workload);
    return equal_ranks(question_, memory(where, workload), hosts_to_tell(question_));
  }

  Plan fill(const Attempt& attempt) const {
    Plan plan;
    plan.layout = attempt.layout;
    plan.parameters = weight_.parameters;
    plan.workload = with(attempt.layout, choose_micro_batch(attempt.layout));
    plan.ranks = ranks(attempt.layout, plan.workload);
    plan.effective_batch = plan.workload.micro_batch * plan.workload.accumulation * data_ranks(attempt.layout);
    plan.refusal = refusal_of(plan, question_.host_memory);
    const bool asked = question_.scheme || question_.offload;
    plan.reasons.push_back(
        fmt::format("{}: {}", strategy_words(plan.layout),
                    plan.fits() || asked ? attempt.reason : "of the strategies, what comes nearest to fitting"));
    if (plan.layout.offload && plan.layout.on_cpu)
      plan.reasons.emplace_back("offload changes nothing here: the memory of CPU ranks is the host's already");
    plan.reasons.push_back(fmt::format("batch: {} {}{} × {} pass{} × {} rank{} = {} per optimizer step",
                                       plan.workload.micro_batch, unit_word(plan.workload),
                                       plan.workload.micro_batch == 1 ? "" : "s", plan.workload.accumulation, plan.workload.accumulation == 1 ? "" : "es",
                                       data_ranks(plan.layout), data_ranks(plan.layout) == 1 ? "" : "s",
                                       plan.effective_batch));
    return plan;
  }

  const Question& question_;
  std::int64_t world_;
  ModelWeight weight_;
  ModelWeight critic_weight_;
};

}  // namespace

Result<Plan> plan_training(const Question& question) { return TrainingPlanner(question).plan(); }

}  // namespace muster::plan
