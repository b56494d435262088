#include "planning/plan_question.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <tuple>

#include "host/host_memory.hpp"
#include "plan/round_phases.hpp"
#include "planning/critic_choice.hpp"
#include "planning/stored_codes.hpp"
#include "spec/model/adapters/adapted_modules.hpp"
#include "spec/model/quantized/packed_modules.hpp"
#include "spec/reward_model_choice.hpp"
#include "system/files.hpp"

namespace muster::planning {
namespace {

using plan::WeightType;

// Where adapters are trained from nothing, the reference is the model without them.
bool has_reference_copy(const spec::RunSpec& spec) {
  const auto policy = spec.policy_options();
  return policy && policy->beta > 0 && (!spec.model.use_lora || !spec.model.adapter_folders.empty());
}

bool asks_for_mixed(const spec::TrainingSpec& training) {
  using spec::MixedPrecision;
  return training.bf16 || training.fp16 || training.mixed_precision == MixedPrecision::bfloat16 ||
         training.mixed_precision == MixedPrecision::float16;
}

// Whether weights are held in float32 while computing in 16 bits: if requested, or if nothing else is.
bool is_mixed(const PlanRequest& plan_request) {
  if (plan_request.work != plan::Work::training || plan_request.spec.model.use_lora) return false;
  if (plan_request.spec.model.load_in_8bit || plan_request.spec.model.load_in_4bit) return false;
  if (asks_for_mixed(plan_request.spec.training)) return true;
  if (plan_request.spec.training.mixed_precision == spec::MixedPrecision::off) return false;
  const spec::DataType dtype = plan_request.spec.model.dtype;
  // Our engine trains 16-bit weights without a wide copy of them only where mixed precision is off.
  if (plan_request.implementation == plan::Implementation::muster && dtype != spec::DataType::float32) return true;
  return dtype == spec::DataType::automatic;
}

std::optional<spec::ElementType> asked_type(const PlanRequest& plan_request) {
  if (is_mixed(plan_request)) return spec::ElementType::float32;
  switch (plan_request.spec.model.computed_type()) {
    case spec::DataType::automatic:
      return std::nullopt;
    case spec::DataType::float32:
      return spec::ElementType::float32;
    case spec::DataType::bfloat16:
      return spec::ElementType::bfloat16;
    case spec::DataType::float16:
      return spec::ElementType::float16;
  }
  return std::nullopt;
}

WeightType weight_type(spec::ElementType held) {
  if (held == spec::ElementType::bfloat16) return WeightType::bfloat16;
  return held == spec::ElementType::float16 ? WeightType::float16 : WeightType::float32;
}

// The type of weights that are not trained, which is what is computed in: as requested, or that of the checkpoint; our
// engine takes 16 bits on a GPU and float32 on a CPU.
WeightType frozen_type(const PlanRequest& plan_request, WeightType held, bool on_gpu) {
  using spec::MixedPrecision;
  const spec::TrainingSpec& training = plan_request.spec.training;
  const bool own = plan_request.implementation == plan::Implementation::muster;
  const bool mixes = own && plan_request.work == plan::Work::training;
  if (mixes && (training.fp16 || training.mixed_precision == MixedPrecision::float16)) return WeightType::float16;
  if (mixes && (training.bf16 || training.mixed_precision == MixedPrecision::bfloat16)) return WeightType::bfloat16;
  if (plan_request.spec.model.computed_type() != spec::DataType::automatic) return held;
  if (mixes && training.mixed_precision == MixedPrecision::off) return WeightType::float32;
  if (own && !on_gpu) return WeightType::float32;
  return own && (mixes || held == WeightType::float32) ? WeightType::bfloat16 : held;
}

Result<std::shared_ptr<const spec::ModelDescription>> read_model(const PlanRequest& plan_request) {
  auto type = asked_type(plan_request);
  const auto& path = plan_request.spec.model.path;
  if (!path && !plan_request.parameters)
    return Error{Error::Kind::bad_input, "no model is named",
                 "muster plan MODEL, with a folder, a config.json, a GGUF file or a name in the Hugging Face cache; or "
                 "muster plan --params 7B"};
  if (path && plan_request.parameters)
    return Error{Error::Kind::bad_input, fmt::format("--params is given, and the model {}", *path),
                 "keep one of the two"};
  // A model known only by its size is usually loaded in 16 bits.
  if (plan_request.parameters && !type) type = spec::ElementType::bfloat16;
  auto model = plan_request.parameters ? spec::model_of_size(*plan_request.parameters, type)
                               : spec::read_model(*path, spec::model_search_from_environment(), type);
  if (!model) return model.error();
  const bool learns_scores = plan_request.work == plan::Work::training && plan_request.spec.reward_model_options();
  if (learns_scores && !model->config.score) *model = spec::with_score_head(std::move(*model), spec::ScoreHead());
  const bool learns_values = plan_request.work == plan::Work::training && plan_request.spec.critic_options() &&
                             !plan_request.spec.ppo.critic;
  if (learns_values && !model->config.score) *model = spec::with_score_head(std::move(*model), {spec::ScoreUse::values, 1});
  return std::make_shared<const spec::ModelDescription>(std::move(*model));
}

// Bytes of the one that judges answers, in the type that is computed in.
Result<std::int64_t> reward_model_bytes(const spec::RunSpec& spec, const plan::Workload& work) {
  const auto chosen = spec::choose_reward_model(spec, spec::model_search_from_environment());
  if (!chosen) return chosen.error();
  if (!*chosen) return 0;
  plan::Workload held;
  held.weights = work.mixed_precision && work.weights == WeightType::float32 ? WeightType::bfloat16 : work.weights;
  if (!(*chosen)->description.codes.empty()) {
    if ((*chosen)->weights)
      if (auto checked = check_stored_codes((*chosen)->description, *(*chosen)->weights); !checked)
        return bad_input("reward.model: " + checked.error().what, checked.error().remedy);
    held.packed = stored_codes((*chosen)->description);
    held.packed->packing.double_quantized = false;
  } else if (const auto& weights = (*chosen)->weights) {
    auto packed = spec::packed_weights((*chosen)->description.shape, weights->skipped);
    if (!packed) return packed.error();
    held.packed = plan::PackedWeights{weights->packing, std::move(*packed)};
  }
  const plan::ModelWeight weight = plan::weigh((*chosen)->description.shape, held);
  return weight.parameter_bytes + weight.buffer_bytes;
}

bool environment_expands_segments() {
  for (const char* name : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"})
    if (const char* value = std::getenv(name);
        value != nullptr && std::string_view(value).find("expandable_segments:True") != std::string_view::npos)
      return true;
  return false;
}

plan::Workload workload(const PlanRequest& plan_request, spec::ElementType held) {
  const spec::RunSpec& spec = plan_request.spec;
  plan::Workload work;
  work.work = plan_request.work;
  work.implementation = plan_request.implementation;
  work.weights = weight_type(held);
  work.mixed_precision = is_mixed(plan_request);
  work.optimizer = spec.training.optimizer;
  work.attention = spec.system.attn_impl;
  work.expandable_segments = plan_request.expandable_segments.value_or(environment_expands_segments());
  if (plan_request.work == plan::Work::training) {
    work.recomputation = spec.training.gradient_checkpointing;
    work.exact = spec.training.deterministic;
    work.sequence = spec.training.sequence_length;
  } else {
    work.sequence = spec.generation.sequence_length;
    work.new_tokens = std::min(spec.generation.max_new_tokens, work.sequence - 1);
  }
  return work;
}

std::optional<plan::Scheme> scheme(spec::Strategy strategy) {
  switch (strategy) {
    case spec::Strategy::automatic:
      return std::nullopt;
    case spec::Strategy::single:
      return plan::Scheme::single;
    case spec::Strategy::ddp:
      return plan::Scheme::ddp;
    case spec::Strategy::fsdp:
      return plan::Scheme::fsdp;
    case spec::Strategy::tensor:
      return plan::Scheme::tensor;
    case spec::Strategy::pipeline:
      return plan::Scheme::pipeline;
    case spec::Strategy::deepspeed:
      break;
  }
  return std::nullopt;
}

std::optional<std::int64_t> limit_of(const spec::DeviceLimits& limits, const std::string& device) {
  const auto found = limits.find(device);
  return found == limits.end() ? std::nullopt : std::optional(found->second.value);
}

bool names_gpus(const spec::DeviceLimits& limits) {
  return std::ranges::any_of(limits, [](const auto& entry) { return entry.first != "cpu" && entry.first != "disk"; });
}

plan::PlanDevice plan_device(const host::HostView& view, gpu::VisibleIndex index) {
  const gpu::VisibleDevice& device = view.visible[static_cast<std::size_t>(number(index))];
  const gpu::Gpu& gpu = view.gpu_of(device);
  const ByteCount room = gpu.reading.memory_free.value_or(gpu.facts.memory_total.value_or(ByteCount{}));
  return {number(index), gpu.facts.name.value_or("GPU"), gpu.facts.uuid ? gpu.facts.uuid->text : std::string{},
          room.value, room.value};
}

// GPUs out of a look at them.
struct PickedGpus {
  host::HostView view;
  std::vector<gpu::VisibleIndex> picked;
};

// Those asked for: by name, by number, or all that are visible; absent: none, the CPU is planned for.
Result<std::optional<PickedGpus>> pick_gpus(host::Host& host, const spec::DistributedSpec& asked) {
  if (asked.device == spec::Device::cpu) return std::optional<PickedGpus>();
  auto view = host.look(gpu::Detail::everything);
  if (!view) return view.error();
  gpu::SelectionRequest request;
  request.ids = gpu::gpu_names(asked.gpu_ids);
  if (asked.num_gpus) request.count = static_cast<int>(*asked.num_gpus);
  request.allow_leased = request.allow_busy = true;
  const bool nothing_asked = request.ids.empty() && !request.count;
  if (asked.enabled == false && request.ids.empty()) request.count = 1;
  if (view->visible.empty() && nothing_asked && asked.device == spec::Device::automatic)
    return std::optional<PickedGpus>();
  auto picked = host::pick(*view, request);
  if (!picked) return picked.error();
  return std::optional(PickedGpus{std::move(*view), std::move(*picked)});
}

Result<std::optional<PickedGpus>> gpus_to_plan_for(host::Host& host, const PlanRequest& plan_request) {
  if (!plan_request.devices) return pick_gpus(host, plan_request.spec.distributed);
  const host::ChosenDevices& given = *plan_request.devices;
  if (given.gpus.empty()) return std::optional<PickedGpus>();
  return std::optional(PickedGpus{given.view.value(), given.gpus});
}

struct PlannedDevices {
  std::vector<plan::PlanDevice> taken;
  std::vector<plan::PlanDevice> spare;  // visible, healthy, not asked for
};

// The GPUs to plan for; of these, the ones max_memory names where it names any.
Result<PlannedDevices> planned_devices(host::Host& host, const PlanRequest& plan_request) {
  const auto gpus = gpus_to_plan_for(host, plan_request);
  if (!gpus) return gpus.error();
  if (!*gpus) return PlannedDevices{};
  const auto& [view, picked] = **gpus;
  std::vector<plan::PlanDevice> devices;
  const spec::DeviceLimits& limits = plan_request.spec.model.max_memory;
  for (const gpu::VisibleIndex index : picked) {
    plan::PlanDevice device = plan_device(view, index);
    const auto limit = limit_of(limits, std::to_string(device.number));
    if (names_gpus(limits) && !limit) continue;
    if (limit) device.limit = std::min(device.limit, *limit);
    devices.push_back(std::move(device));
  }
  for (const auto& [name, limit] : limits)
    if (name != "cpu" && name != "disk" && std::ranges::none_of(devices, [&](const plan::PlanDevice& device) {
          return std::to_string(device.number) == name;
        }))
      return Error{Error::Kind::bad_input,
                   fmt::format("max_memory names GPU {}, which is not among the chosen ones", name),
                   "muster gpus lists them; leave it out, or choose it with --gpu-ids"};
  PlannedDevices found{std::move(devices), {}};
  if (names_gpus(limits)) return found;
  gpu::SelectionRequest everything;
  everything.allow_leased = everything.allow_busy = true;
  const auto all = host::pick(view, everything);
  for (const gpu::VisibleIndex index : all ? *all : std::vector<gpu::VisibleIndex>{})
    if (std::ranges::find(picked, index) == picked.end()) found.spare.push_back(plan_device(view, index));
  return found;
}

std::optional<spec::DeviceMap> requested_map(const spec::ModelSpec& model) {
  if (model.device_map) return model.device_map;
  if (model.auto_device_map) return spec::DeviceMap{spec::MapRule::automatic};
  return std::nullopt;
}

// A model that is split over GPUs is split over all that are planned for.
Result<void> take_split(plan::Question& question, const spec::DistributedSpec& asked, std::size_t gpus) {
  for (const auto& [key, degree, scheme] :
       {std::tuple{"distributed.tensor_parallel", asked.tensor_parallel.value, plan::Scheme::tensor},
        std::tuple{"distributed.pipeline_parallel", asked.pipeline_parallel.value, plan::Scheme::pipeline}}) {
    if (degree <= 1) continue;
    if (static_cast<std::size_t>(degree) != gpus)
      return Error{Error::Kind::bad_input,
                   fmt::format("{} is {}, and the plan is for {} GPUs: a plan splits a model over all of them", key,
                               degree, gpus),
                   fmt::format("--num-gpus {}", degree)};
    if (!question.scheme) question.scheme = scheme;
  }
  return {};
}

// Training puts the model, or a shard of it, on each rank's own device. A map that says the same is accepted; one that
// would split layers over devices is not.
Result<void> check_training_map(const spec::RunSpec& spec, std::size_t gpus) {
  const auto map = requested_map(spec.model);
  if (!map || *map == spec::DeviceMap{spec::MapRule::automatic}) return {};
  const auto* rule = std::get_if<spec::MapRule>(&*map);
  if (rule != nullptr && (*rule == spec::MapRule::cuda || *rule == spec::MapRule::cpu)) {
    if ((*rule == spec::MapRule::cuda) == (gpus > 0)) return {};
    return Error{Error::Kind::bad_input,
                 fmt::format("the device map is {}, and training is on {}", gpus > 0 ? "cpu" : "cuda",
                             gpus > 0 ? "GPUs" : "the CPU"),
                 "leave the device map out, or write auto; --device says what computes"};
  }
  const std::size_t ranks = gpus > 0 ? gpus : static_cast<std::size_t>(spec.distributed.ranks.value_or(1));
  if (rule != nullptr && ranks == 1 && spec.distributed.num_nodes == 1) return {};
  return Error{Error::Kind::bad_input,
               fmt::format("model.device_map splits one model over {}, and training gives each {}",
                           gpus > 0 ? "the GPUs" : "the ranks", gpus > 0 ? "GPU a rank of its own" : "rank all layers"),
               "leave the device map out, or write auto: --strategy fsdp shards a model that does not fit one GPU"};
}

// Whether weights that a checkpoint has in codes stay so: not where they are trained, or drawn.
bool keeps_codes(const PlanRequest& plan_request) {
  const spec::ModelSpec& model = plan_request.spec.model;
  if (model.init == spec::WeightSource::random) return false;
  return plan_request.work != plan::Work::training || model.use_lora || !model.adapter_folders.empty();
}

// Called when the devices are known.
Result<void> take_packing(plan::Question& question, const PlanRequest& plan_request) {
  const spec::ModelSpec& model = plan_request.spec.model;
  const bool own = plan_request.implementation == plan::Implementation::muster, on_gpu = !question.devices.empty();
  const bool stored = keeps_codes(plan_request) && !question.model->codes.empty();
  std::optional<spec::WeightPacking> packing = model.packing();
  if (packing || stored || (own && question.workload.adapters))
    question.workload.weights = frozen_type(plan_request, question.workload.weights, on_gpu);
  if (stored) {
    if (packing)
      if (auto checked = check_stored_codes(*question.model, *model.weight_options()); !checked) return checked;
    question.workload.packed = stored_codes(*question.model);
  } else if (packing) {
    auto tensors = spec::packed_weights(question.model->shape,
                                        model.llm_int8_skip_modules.value_or(std::vector<std::string>()));
    if (!tensors)
      return bad_input(fmt::format("model.llm_int8_skip_modules: {}", tensors.error().what), tensors.error().remedy);
    if (!tensors->empty()) question.workload.packed = plan::PackedWeights{*packing, std::move(*tensors)};
  }
  // Our engine holds what its kernels multiply by.
  if (own && question.workload.packed) question.workload.packed->packing.double_quantized = false;
  return {};
}

Result<void> take_adapters(plan::Question& question, const spec::ModelSpec& model) {
  const std::optional<spec::AdapterOptions> options = model.adapters();
  if (!options) return {};
  if (auto checked = spec::check_asked_modules(question.model->shape, *options); !checked) return checked;
  // peft keeps the tied tensor and trains a copy.
  if (question.workload.implementation == plan::Implementation::muster)
    question.model = std::make_shared<const spec::ModelDescription>(spec::beside_adapters(*question.model, *options));
  auto adapters = plan::adapters_beside(question.model->shape, *options);
  if (!adapters) return adapters.error();
  question.workload.adapters = std::move(*adapters);
  return {};
}

}  // namespace

Result<plan::Question> plan_question(host::Host& host, const PlanRequest& plan_request) {
  const spec::RunSpec& spec = plan_request.spec;
  if (spec.distributed.strategy == spec::Strategy::deepspeed)
    return Error{Error::Kind::bad_input, "the strategy is deepspeed, which muster does not run",
                 "--strategy fsdp shards the same states"};
  auto model = read_model(plan_request);
  if (!model) return model.error();
  auto devices = planned_devices(host, plan_request);
  if (!devices) return devices.error();
  plan::Question question;
  question.model = std::move(*model);
  question.workload = workload(plan_request, question.model->dtype);
  const bool training = plan_request.work == plan::Work::training;
  if (training)
    if (auto taken = take_adapters(question, spec.model); !taken) return taken.error();
  if (training) {
    question.workload.reference = has_reference_copy(spec);
    question.workload.together = spec::learns_from_pairs(spec.training.algorithm) ? 2 : 1;
    question.workload.weighed =
        spec.preference_options().has_value() || spec::samples_answers(spec.training.algorithm);
    question.batch = spec.training.batch_size;
    question.micro_batch = spec.training.micro_batch_size;
    question.accumulation = spec.training.gradient_accumulation_steps;
  } else {
    question.micro_batch = spec.generation.batch_size;
    question.map = requested_map(spec.model);
  }
  if (training)
    if (auto checked = check_training_map(spec, devices->taken.size()); !checked) return checked.error();
  question.scheme = scheme(spec.distributed.strategy);
  if (auto taken = take_split(question, spec.distributed, devices->taken.size()); !taken) return taken.error();
  question.sharding = spec.distributed.fsdp_sharding_strategy;
  question.offload = spec.distributed.fsdp_cpu_offload;
  question.shard_group = spec.distributed.fsdp_group_size;
  question.devices = std::move(devices->taken);
  question.spare = std::move(devices->spare);
  if (auto taken = take_packing(question, plan_request); !taken) return taken.error();
  if (training) {
    auto critic = choose_critic(spec, spec::model_search_from_environment());
    if (!critic) return critic.error();
    if (*critic) question.critic = std::make_shared<const spec::ModelDescription>(std::move(**critic));
    const auto bytes = reward_model_bytes(spec, question.workload);
    if (!bytes) return bytes.error();
    question.workload.reward_model = *bytes;
  }
  question.limits_given = !spec.model.max_memory.empty();
  question.cpu_limit = limit_of(spec.model.max_memory, "cpu");
  question.disk_limit = limit_of(spec.model.max_memory, "disk");
  // An inventory file says nothing about the memory of its host.
  const bool computes_here = plan_request.devices && plan_request.devices->gpus.empty();
  if (!host.sources().inventory_file || computes_here) question.host_memory = host::host_memory_of_this_process();
  question.hosts = spec.distributed.num_nodes;
  question.planner = plan_request.planner;
  question.packed_off_gpus = spec.model.llm_int8_enable_fp32_cpu_offload;
  if (plan_request.constants) {
    auto text = read_file(*plan_request.constants);
    if (!text) return text.error();
    auto constants = plan::read_constants(*text, plan_request.constants->string());
    if (!constants) return constants.error();
    question.constants = *constants;
  }
  return question;
}

void add_phases_of_rounds(const spec::RunSpec& spec, const plan::Question& question, plan::Plan& plan) {
  const auto policy = spec.policy_options();
  if (!policy || question.workload.implementation != plan::Implementation::muster) return;
  plan::add_phases(question,
                   {.answers = policy->answers,
                    .most_tokens = policy->most_tokens,
                    .side_by_side = spec.generation.batch_size,
                    .scores = policy->beta > 0},
                   plan);
}

}  // namespace muster::planning
