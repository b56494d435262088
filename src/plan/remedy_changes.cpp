#include "plan/remedy_changes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "spec/capability.hpp"
#include "spec/model/quantized/packed_modules.hpp"

namespace muster::plan {
namespace {

using spec::Capability;

// The first of them that this version does not have.
template <class... More>
std::string unless_available(Capability capability, More... more) {
  if (!is_available(capability)) return std::string(name(capability));
  if constexpr (sizeof...(more) > 0) return unless_available(more...);
  return "";
}

bool is_own(const Question& question) { return question.workload.implementation == Implementation::muster; }

void add_allocator(std::vector<Family>& list, const Question& question) {
  if (question.workload.expandable_segments || question.devices.empty()) return;
  list.push_back({{"the allocator's expandable segments (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True)",
                   {{"allocator", "expandable"}},
                   [](Question& tried) { tried.workload.expandable_segments = true; }}});
}

// Half, a quarter, …: at least `least` tokens.
void add_sequence(std::vector<Family>& list, const Question& question, std::int64_t least) {
  Family family;
  int cost = 6;
  const bool training = question.workload.work == Work::training;
  for (std::int64_t value = question.workload.sequence / 2; value >= least; value /= 2)
    family.push_back({fmt::format("sequences of at most {} instead of {}", value, question.workload.sequence),
                      {{training ? "training.sequence_length" : "generation.sequence_length", std::to_string(value)}},
                      [value](Question& tried) {
                        tried.workload.sequence = value;
                        tried.workload.new_tokens = std::min(tried.workload.new_tokens, value - 1);
                      },
                      cost++});
  list.push_back(std::move(family));
}

std::string numbers_of(const std::vector<PlanDevice>& devices) {
  std::vector<std::string> numbers;
  for (const PlanDevice& device : devices) numbers.push_back(std::to_string(device.number));
  return join(numbers, ",");
}

Change other_gpus(std::string what, std::vector<PlanDevice> devices) {
  std::ranges::sort(devices, {}, &PlanDevice::number);
  std::string numbers = numbers_of(devices);
  return {std::move(what),
          {{"distributed.gpu_ids", std::move(numbers)}},
          [devices = std::move(devices)](Question& tried) { tried.devices = devices; },
          3};
}

// GPUs that were not chosen, one after another, as long as they share a batch evenly.
void add_spare_gpus(std::vector<Family>& list, const Question& question) {
  Family family;
  std::vector<PlanDevice> devices = question.devices;
  for (const PlanDevice& more : question.spare) {
    devices.push_back(more);
    if (question.batch && *question.batch % (question.hosts * std::ssize(devices)) != 0) continue;
    family.push_back(
        other_gpus(fmt::format("{} GPUs instead of {}", devices.size(), question.devices.size()), devices));
  }
  list.push_back(std::move(family));
}

// If every rank needs the same, the smallest GPU decides: the roomier ones alone may be enough. Limits by name pin the
// GPUs.
void add_roomiest_gpus(std::vector<Family>& list, const Question& question) {
  if (question.limits_given) return;
  Family family;
  std::vector<PlanDevice> devices = question.devices;
  std::ranges::stable_sort(devices, std::ranges::greater{}, &PlanDevice::limit);
  while (devices.size() > 1) {
    const std::int64_t least = devices.back().limit;
    if (devices.front().limit == least) break;
    std::erase_if(devices, [least](const PlanDevice& device) { return device.limit == least; });
    family.push_back(other_gpus(fmt::format("only the roomier GPUs, {}", numbers_of(devices)), devices));
  }
  list.push_back(std::move(family));
}

// Limits that are lower than what the GPUs have free.
void add_higher_limits(std::vector<Family>& list, const Question& question) {
  const auto is_lowered = [](const PlanDevice& device) { return device.limit < device.free; };
  if (!question.limits_given || std::ranges::none_of(question.devices, is_lowered)) return;
  constexpr std::int64_t mebibyte = 1 << 20;
  std::vector<std::string> limits;
  for (const PlanDevice& device : question.devices)
    limits.push_back(fmt::format("{}={}MiB", device.number, device.free / mebibyte));
  if (question.cpu_limit) limits.push_back(fmt::format("cpu={}MiB", *question.cpu_limit / mebibyte));
  if (question.disk_limit) limits.push_back(fmt::format("disk={}MiB", *question.disk_limit / mebibyte));
  list.push_back(
      {{"let it take all that is free on the GPUs", {{"model.max_memory", join(limits, ",")}}, [](Question& tried) {
          for (PlanDevice& device : tried.devices) device.limit = device.free / mebibyte * mebibyte;
        }}});
}

// Smaller micro-batches and more passes: the batch stays the same.
void add_micro_batch(std::vector<Family>& list, const Question& question) {
  Family family;
  const std::int64_t now = question.micro_batch.value_or(1);
  for (std::int64_t value = now / 2; value >= 1; --value) {
    if (now % value != 0) continue;
    std::vector<SettingChange> settings{{"training.micro_batch_size", std::to_string(value)}};
    if (question.accumulation)
      settings.push_back({"training.gradient_accumulation_steps", std::to_string(*question.accumulation * (now / value))});
    family.push_back({fmt::format("a micro-batch of {} instead of {}", value, now), std::move(settings),
                      [value, now](Question& tried) {
                        if (tried.accumulation) tried.accumulation = *tried.accumulation * (now / value);
                        tried.micro_batch = value;
                      },
                      2});
  }
  list.push_back(std::move(family));
}

// Where batch and passes are given, the micro-batch follows from them.
void add_passes(std::vector<Family>& list, const Question& question) {
  if (!question.batch || !question.accumulation || question.micro_batch) return;
  Family family;
  for (std::int64_t passes = *question.accumulation * 2; passes <= *question.batch; passes *= 2)
    family.push_back({fmt::format("{} passes per optimizer step instead of {}", passes, *question.accumulation),
                      {{"training.gradient_accumulation_steps", std::to_string(passes)}},
                      [passes](Question& tried) { tried.accumulation = passes; },
                      2});
  list.push_back(std::move(family));
}

// Hosts like this one, over which states are sharded: as many as people may have, or twice as many as requested.
void add_hosts(std::vector<Family>& list, const Question& question) {
  constexpr std::int64_t usual_hosts = 8;
  if (question.devices.empty()) return;
  Family family;
  int cost = 6;
  for (std::int64_t hosts = question.hosts * 2; hosts <= std::max(usual_hosts, question.hosts * 2); hosts *= 2) {
    if (question.batch && *question.batch % (hosts * ranks_of_host(question)) != 0) break;
    family.push_back({fmt::format("{} hosts like this one", hosts),
                      {{"distributed.num_nodes", std::to_string(hosts)}, {"distributed.strategy", "fsdp"}},
                      [hosts](Question& tried) {
                        tried.hosts = hosts;
                        tried.scheme = Scheme::fsdp;
                      },
                      cost++});
  }
  list.push_back(std::move(family));
}

void add_sharding(std::vector<Family>& list, const Question& question) {
  const bool several = question.hosts * ranks_of_host(question) > 1;
  // If nothing is requested, GPUs have been tried with it.
  const bool known = question.scheme ? *question.scheme == Scheme::fsdp : !question.devices.empty();
  if (several && !known)
    list.push_back({{fmt::format("shard weights, gradients and optimizer over the {}",
                                 question.devices.empty() ? "ranks" : "GPUs"),
                     {{"distributed.strategy", "fsdp"}},
                     [](Question& tried) { tried.scheme = Scheme::fsdp; },
                     2}});
  if (several && question.sharding != spec::ShardingStrategy::full_shard)
    list.push_back({{"shard the weights too",
                     {{"distributed.strategy", "fsdp"}, {"distributed.fsdp_sharding_strategy", "full_shard"}},
                     [](Question& tried) {
                       tried.scheme = Scheme::fsdp;
                       tried.sharding = spec::ShardingStrategy::full_shard;
                     },
                     2}});
}

void add_offload(std::vector<Family>& list, const Question& question) {
  if (question.offload || question.devices.empty()) return;
  // If it is not known whether the host has that much memory, the others come first.
  list.push_back({{"keep the shards in host memory",
                   {{"distributed.strategy", "fsdp"}, {"distributed.fsdp_cpu_offload", "true"}},
                   [](Question& tried) {
                     tried.scheme = Scheme::fsdp;
                     tried.offload = true;
                   },
                   question.host_memory ? 4 : 7}});
}

// For our engine, which keeps float32 masters in any case.
void add_narrower_computing(std::vector<Family>& list, const Question& question) {
  if (question.workload.mixed_precision || question.workload.weights != WeightType::float32) return;
  const bool frozen = question.workload.adapters.has_value();
  list.push_back({{frozen ? "compute in bfloat16" : "compute in bfloat16, with float32 masters",
                   {{"training.mixed_precision", "bf16"}},
                   [](Question& tried) {
                     // Beside frozen weights it is the type of these.
                     tried.workload.mixed_precision = !tried.workload.adapters;
                     if (tried.workload.adapters) tried.workload.weights = WeightType::bfloat16;
                   },
                   4}});
}

// First what costs no products.
void add_recomputation(std::vector<Family>& list, const Question& question) {
  Family family;
  const auto recompute = [](spec::Recomputation how) {
    return [how](Question& tried) { tried.workload.recomputation = how; };
  };
  const bool own = is_own(question);
  if (own && question.workload.recomputation == spec::Recomputation::none)
    family.push_back({"recompute norms, rotations and gates instead of keeping them",
                      {{"training.gradient_checkpointing", "selective"}},
                      recompute(spec::Recomputation::selective),
                      2});
  if (question.workload.recomputation != spec::Recomputation::full)
    family.push_back({"recompute activations instead of keeping them",
                      {{"training.gradient_checkpointing", "full"}},
                      recompute(spec::Recomputation::full),
                      3});
  list.push_back(std::move(family));
}

void add_smaller_optimizer(std::vector<Family>& list, const Question& question) {
  if (question.workload.optimizer == spec::OptimizerKind::adamw_8bit ||
      question.workload.optimizer == spec::OptimizerKind::sgd)
    return;
  list.push_back({{"an optimizer with 8-bit states",
                   {{"training.optimizer", "adamw_8bit"}},
                   [](Question& tried) { tried.workload.optimizer = spec::OptimizerKind::adamw_8bit; },
                   4}});
}

// Exact sums of gradients are in float32.
void add_narrower_states(std::vector<Family>& list, const Question& question) {
  if (question.workload.exact) return;
  if (!question.workload.mixed_precision && question.workload.weights != WeightType::float32) return;
  list.push_back({{"weights, gradients and optimizer in bfloat16 (less exact)",
                   {{"model.dtype", "bfloat16"}, {"training.mixed_precision", "no"}},
                   [](Question& tried) {
                     tried.workload.mixed_precision = false;
                     tried.workload.weights = WeightType::bfloat16;
                   },
                   4}});
}

// What our engine cannot do is no remedy for what it is asked to do.
void add_possible(Family& family, const Question& question, Change change) {
  if (!is_own(question) || change.missing.empty()) family.push_back(std::move(change));
}

// The weights in this many bits, instead of as they are; nothing where none can be packed.
std::optional<PackedWeights> packed_in(const Question& question, int bits) {
  using enum spec::PackedCode;
  if (!question.model->codes.empty()) return std::nullopt;  // they are used as they are
  PackedWeights packed{{.code = bits == 8 ? int8 : nf4}, {}};
  if (question.workload.packed)
    packed.tensors = question.workload.packed->tensors;
  else
    packed.tensors = spec::packed_weights(question.model->shape, {}).value();
  if (packed.tensors.empty()) return std::nullopt;
  return packed;
}

// One setting on, and its opposite off.
std::vector<SettingChange> settings_of_packing(const Question& question, int bits) {
  std::vector<SettingChange> settings{{bits == 8 ? "model.load_in_8bit" : "model.load_in_4bit", "true"}};
  if (question.workload.packed)
    settings.push_back({bits == 8 ? "model.load_in_4bit" : "model.load_in_8bit", "false"});
  return settings;
}

// 8 and 4 bits, where the weights have more.
void add_packing(Family& family, const Question& question, std::string_view of_what, int& cost) {
  for (const int bits : {8, 4}) {
    if (bits >= weight_bits(question.workload)) continue;
    auto packed = packed_in(question, bits);
    if (!packed) return;
    add_possible(family, question,
                 {fmt::format("hold the {} in {} bits", of_what, bits), settings_of_packing(question, bits),
                  [packed = std::move(*packed)](Question& tried) {
                    tried.workload.packed = packed;
                    // Where a type is asked for in few bits, transformers computes in bfloat16.
                    if (!is_own(tried) && tried.workload.work == Work::inference)
                      tried.workload.weights = WeightType::bfloat16;
                  },
                  cost++,
                  unless_available(Capability::quantized_loading)});
  }
}

constexpr std::int64_t usual_rank = 8;

// Adapters, and frozen weights in the type that is computed in; transformers holds and computes in bfloat16.
void begin_adapters(Question& tried, const Adapters& adapters) {
  Workload& work = tried.workload;
  work.adapters = adapters;
  if (work.implementation == Implementation::transformers || work.mixed_precision) work.weights = WeightType::bfloat16;
  work.mixed_precision = false;
}

void add_first_adapters(std::vector<Family>& list, const Question& question) {
  auto found = adapters_beside(question.model->shape, {.rank = usual_rank, .dropout = 0.05});
  if (!found) return;  // no linear layer
  const auto usual = std::make_shared<const Adapters>(std::move(*found));
  std::vector<SettingChange> settings{{"model.use_lora", "true"}, {"model.lora_r", std::to_string(usual_rank)}};
  Family family;
  const bool keeps_type = is_own(question);
  std::vector<SettingChange> plain = settings;
  if (!keeps_type) plain.push_back({"model.dtype", "bfloat16"});
  add_possible(family, question,
               {"train low-rank adapters instead of the weights", std::move(plain),
                [usual](Question& tried) { begin_adapters(tried, *usual); }, 6,
                unless_available(Capability::low_rank_adapters)});
  if (auto packed = packed_in(question, 4)) {
    for (SettingChange& change : settings_of_packing(question, 4)) settings.push_back(std::move(change));
    add_possible(family, question,
                 {"train low-rank adapters over weights in 4 bits", std::move(settings),
                  [usual, packed = std::move(*packed)](Question& tried) {
                    begin_adapters(tried, *usual);
                    tried.workload.packed = packed;
                  },
                  10, unless_available(Capability::low_rank_adapters, Capability::quantized_loading)});
  }
  list.push_back(std::move(family));
}

void add_adapters(std::vector<Family>& list, const Question& question) {
  if (!question.workload.adapters) return add_first_adapters(list, question);
  Family narrower;
  int cost = 4;
  if (!is_own(question) && weight_bits(question.workload) > 16)
    narrower.push_back({"hold the frozen weights in 16 bits",
                        {{"model.dtype", "bfloat16"}},
                        [](Question& tried) { tried.workload.weights = WeightType::bfloat16; },
                        cost++});
  add_packing(narrower, question, "frozen weights", cost);
  list.push_back(std::move(narrower));
}

void add_fused_attention(std::vector<Family>& list, const Question& question) {
  if (question.workload.attention != spec::Attention::eager) return;
  list.push_back({{"attention that keeps no table of scores", {{"system.attn_impl", "sdpa"}}, [](Question& tried) {
                     tried.workload.attention = spec::Attention::sdpa;
                   }}});
}

std::vector<Family> training_families(const Question& question) {
  std::vector<Family> list;
  add_allocator(list, question);
  add_fused_attention(list, question);
  add_recomputation(list, question);
  add_micro_batch(list, question);
  add_passes(list, question);
  add_higher_limits(list, question);
  add_spare_gpus(list, question);
  add_roomiest_gpus(list, question);
  // Texts cut to less than a quarter teach something else.
  add_sequence(list, question, std::max<std::int64_t>(128, question.workload.sequence / 4));
  add_sharding(list, question);
  add_offload(list, question);
  const bool own = is_own(question);
  if (own) add_narrower_computing(list, question);
  if (!question.workload.adapters) add_smaller_optimizer(list, question);
  if (!question.workload.adapters) add_narrower_states(list, question);
  add_adapters(list, question);
  add_hosts(list, question);
  return list;
}

void add_narrower_weights(std::vector<Family>& list, const Question& question) {
  Family family;
  int cost = 3;
  if (weight_bits(question.workload) > 16)
    family.push_back({"hold the weights in 16 bits",
                      {{"model.dtype", "bfloat16"}},
                      [](Question& tried) { tried.workload.weights = WeightType::bfloat16; },
                      cost++});
  add_packing(family, question, "weights", cost);
  list.push_back(std::move(family));
}

// Room for the whole model with its keys and values, whatever the split.
void add_host_memory(std::vector<Family>& list, const Question& question) {
  if (question.devices.empty()) return;
  Workload workload = question.workload;
  workload.micro_batch = question.micro_batch.value_or(workload.micro_batch);
  const spec::ModelConfig& config = question.model->config;
  const ModelWeight weight = weigh(question.model->shape, workload);
  const DeviceMemory whole =
      device_memory(config, weight, workload, Layout{}, whole_model(config, weight), question.constants);
  const std::int64_t room = whole.total() / (1 << 30) + 1;
  const auto larger = [room](std::optional<std::int64_t> limit) { return !limit || *limit < room << 30; };
  if (larger(question.cpu_limit))
    list.push_back({{"lay what the GPUs cannot hold in host memory (slow)",
                     {{"model.max_memory.cpu", fmt::format("{}GiB", room)}},
                     [room](Question& tried) {
                       tried.cpu_limit = room << 30;
                       tried.limits_given = true;
                     },
                     7}});
  if (larger(question.disk_limit))
    list.push_back({{"lay what the GPUs cannot hold on disk (very slow)",
                     {{"model.max_memory.disk", fmt::format("{}GiB", room)}},
                     [room](Question& tried) {
                       tried.disk_limit = room << 30;
                       tried.limits_given = true;
                     },
                     9}});
}

std::vector<Family> inference_families(const Question& question) {
  std::vector<Family> list;
  add_allocator(list, question);
  add_fused_attention(list, question);
  Family smaller;
  const std::int64_t batch = question.micro_batch.value_or(question.workload.micro_batch);
  for (std::int64_t value = batch / 2; value >= 1; value /= 2)
    smaller.push_back({fmt::format("{} sequence{} at once instead of {}", value, value == 1 ? "" : "s", batch),
                       {{"generation.batch_size", std::to_string(value)}},
                       [value](Question& tried) { tried.micro_batch = value; },
                       2});
  list.push_back(std::move(smaller));
  add_higher_limits(list, question);
  add_spare_gpus(list, question);
  add_roomiest_gpus(list, question);
  if (question.map || question.scheme || question.planner != Planner::optimal)
    list.push_back({{"let muster lay the layers over all GPUs",
                     {{"model.device_map", "balanced"}, {"planner", "optimal"}, {"distributed.strategy", "auto"}},
                     [](Question& tried) {
                       tried.map.emplace(spec::MapRule::balanced);
                       tried.planner = Planner::optimal;
                       tried.scheme.reset();
                     },
                     2}});
  add_narrower_weights(list, question);
  add_sequence(list, question, std::max<std::int64_t>(128, 2 * question.workload.new_tokens));
  add_host_memory(list, question);
  return list;
}

}  // namespace

std::vector<Family> possible_changes(const Question& question) {
  std::vector<Family> families =
      question.workload.work == Work::training ? training_families(question) : inference_families(question);
  std::erase_if(families, [](const Family& family) { return family.empty(); });
  return families;
}

}  // namespace muster::plan
