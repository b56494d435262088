// The proof that work fits, or why not: which bytes go where, how the model is split, which batch runs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "plan/device_map.hpp"
#include "plan/memory_model.hpp"
#include "plan/split_units.hpp"
#include "plan/workload.hpp"
#include "spec/model/model_source.hpp"
#include "spec/values.hpp"

namespace muster::plan {

// A GPU as the work would see it.
struct PlanDevice {
  int number = 0;  // cuda:N
  std::string name;
  std::string uuid;
  std::int64_t limit = 0;  // bytes the work may take on it
  std::int64_t free = 0;   // bytes that are free on it, limit or not
};

// Which rules lay modules over devices: our exact split, or those of accelerate or transformers, key for key.
enum class Planner { optimal, accelerate, transformers };

// How much of a plan is wanted.
enum class Detail {
  everything,  // including the batch sizes that would fit
  plan,        // without them
  verdict,     // only whether it fits: the micro-batch is 1 unless given
};

// Everything a plan follows from.
struct Question {
  std::shared_ptr<const spec::ModelDescription> model;
  std::shared_ptr<const spec::ModelDescription> critic = {};  // training: what is trained beside it
  Workload workload;
  std::optional<std::int64_t> batch;         // training: sequences per optimizer step, over all ranks
  std::optional<std::int64_t> micro_batch;   // sequences per device and pass; absent: as many as fit
  std::optional<std::int64_t> accumulation;  // passes per optimizer step; absent: as batch requires
  std::optional<Scheme> scheme;              // absent: the cheapest that fits
  spec::ShardingStrategy sharding = spec::ShardingStrategy::full_shard;
  bool offload = false;                     // FSDP's shards in host memory
  std::optional<std::int64_t> shard_group;  // hybrid_shard: ranks that share one copy; absent: those of one host
  std::vector<PlanDevice> devices;
  // Training: ranks of each host, which take the devices in turn and share them evenly; absent: one on each, or a
  // single one without GPUs.
  std::optional<std::int64_t> ranks;
  std::vector<PlanDevice> spare;            // visible GPUs that were not chosen
  bool limits_given = false;                // by max_memory
  std::optional<std::int64_t> cpu_limit;    // bytes of modules that may lie in host memory; absent: none
  std::optional<std::int64_t> disk_limit;   // likewise on disk
  std::optional<std::int64_t> host_memory;  // bytes free in host memory, where that is known
  std::int64_t hosts = 1;                   // equal ones
  std::optional<spec::DeviceMap> map;       // inference: how modules are laid over devices; absent: only where needed
  Planner planner = Planner::optimal;
  bool packed_off_gpus = false;             // transformers' planner: a packed model's modules may lie on cpu and disk
  // A process computes on each device: embeddings stay with the first block, the last norm and the head with the last
  // one. What is on cpu or disk is brought to a device for each pass, a block at a time: limits then say what may
  // stay there, and what is free must hold the rest.
  bool as_stages = false;
  Detail detail = Detail::everything;
  MemoryConstants constants;
  std::shared_ptr<StepMemo> memo = std::make_shared<StepMemo>();  // shared by the questions a search derives from it
};

inline std::int64_t ranks_of_host(const Question& question) {
  return question.ranks.value_or(std::max<std::int64_t>(std::ssize(question.devices), 1));
}

// For a CPU rank when host memory is not known.
inline constexpr std::int64_t unknown_limit = std::numeric_limits<std::int64_t>::max();

struct RankPlan {
  int rank = 0;
  int host = 0;
  std::optional<PlanDevice> gpu;  // absent: a CPU rank
  DeviceMemory memory;
  std::int64_t limit = 0;
  std::optional<LayerRange> layers;  // if the model is split by layers

  bool fits() const { return memory.total() <= limit; }
  bool limit_is_known() const { return limit != unknown_limit; }
};

// One setting and its value, by which a remedy differs from the request. How a command is told so is
// planning/remedy_words.hpp.
struct SettingChange {
  std::string key;    // "model.dtype"; "model.max_memory.cpu" is a part of one, "allocator" and "planner" are the plan's own
  std::string value;  // "int8"
};

struct Remedy {
  std::string change;                 // "hold the weights in 8 bits"
  std::vector<SettingChange> settings;
  std::int64_t peak = 0;              // of the fullest device then
  std::int64_t host = 0;              // bytes of each host's memory that it takes in addition
  std::vector<std::string> missing;   // the part of it that muster itself cannot do yet: "LoRA"
};

struct Refusal {
  std::string reason;
  std::int64_t shortfall = 0;  // bytes missing on the device that lacks the most
  std::vector<Remedy> remedies;
};

// Batch sizes that fit along with the model, if requested.
struct BatchAdvice {
  std::int64_t generation = 0;  // sequences generated at once
  std::int64_t scoring = 0;     // texts scored at once, logits of every position
};

// A part of a round of a run that samples what it is trained on.
struct Phase {
  std::string_view name;      // "sampling"
  std::int64_t bytes = 0;     // that the fullest rank takes, with what is beyond its peak
  std::int64_t limit = 0;     // of that rank
};

struct Plan {
  Layout layout;
  Workload workload;  // with the chosen micro-batch and accumulation
  std::int64_t parameters = 0;
  std::int64_t effective_batch = 0;
  std::vector<RankPlan> ranks;
  std::optional<DeviceMap> map;
  std::int64_t duplicated = 0;  // bytes a tied tensor takes twice because its two uses are apart
  std::vector<std::pair<Place, std::int64_t>> off_gpu;  // bytes of modules on cpu and disk
  std::optional<BatchAdvice> batches;
  std::vector<Phase> phases;                 // in their order; of other runs none
  std::optional<std::int64_t> side_by_side;  // answers that a rank writes at once
  std::vector<std::string> reasons;  // one sentence each: why this strategy, this batch, these devices
  std::optional<Refusal> refusal;

  bool fits() const { return !refusal; }
};

// bad_input if the question makes no sense (a batch that ranks do not divide); a plan with a refusal if it does
// not fit.
Result<Plan> make_plan(const Question& question);

// What would make a refused question fit: each was tried, and fits. Smallest change first; none that takes more hosts
// or more memory than people have. Empty: nothing sensible helps.
std::vector<Remedy> find_remedies(const Question& question);

// The fewest of these devices, the roomiest first, on which the model fits for inference; empty: not on all of them.
std::vector<PlanDevice> smallest_set(const Question& question);

}  // namespace muster::plan
