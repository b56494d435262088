#include "plan/memory_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "spec/codec.hpp"
#include "spec/coded_states.hpp"

namespace muster::plan {
namespace {

int width_of(WeightType type) { return type == WeightType::float32 ? 4 : 2; }

}  // namespace

std::string_view name(WeightType type) {
  constexpr std::array<std::string_view, 3> names{"float32", "bfloat16", "float16"};
  return names[static_cast<std::size_t>(type)];
}

int weight_bits(const Workload& workload) {
  return workload.packed ? workload.packed->packing.bits() : 8 * width_of(workload.weights);
}

std::string_view unit_word(const Workload& workload) { return workload.together == 1 ? "sequence" : "pair"; }

std::string_view weight_name(const Workload& workload) {
  if (!workload.packed) return name(workload.weights);
  return workload.packed->packing.bits() == 8 ? "int8" : "int4";
}

std::string_view name(Scheme scheme) {
  constexpr std::array<std::string_view, 7> names{"single", "replicas", "ddp",        "fsdp",
                                                  "tensor", "pipeline", "layer_split"};
  return names[static_cast<std::size_t>(scheme)];
}

std::string strategy_words(const Layout& layout) {
  std::string words(name(layout.scheme));
  if (layout.scheme != Scheme::fsdp) return words;
  words += " " + spec::write(layout.sharding);
  if (layout.sharding == spec::ShardingStrategy::hybrid_shard)
    words += fmt::format(" in groups of {}", layout.shard_group);
  return words + (layout.offload ? ", with offload" : "");
}

std::string_view name(Component component) {
  constexpr std::array<std::string_view, component_count> names{
      "weights",   "quantization",    "buffers", "master_weights", "gradients", "optimizer",
      "adapters",  "reference", "reward_model", "critic",    "activations",     "logits",  "kv_cache",       "gathered",  "buckets",
      "workspace", "allocator_slack", "nccl",    "cuda_context"};
  return names[static_cast<std::size_t>(component)];
}

std::int64_t DeviceMemory::peak() const {
  return std::accumulate(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(Component::slack), std::int64_t{0});
}
std::int64_t DeviceMemory::total() const { return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0}); }

namespace {

constexpr std::int64_t scale_bytes = 4;
constexpr std::int64_t scales_in_a_run = 256;  // scales that are in 8 bits themselves share one of 4 bytes

std::int64_t divided(std::int64_t bytes, std::int64_t parts) { return (bytes + parts - 1) / parts; }

// A packed matrix with this many outputs has one for each of them in 8 bits, one for each run in 4 bits.
std::int64_t bytes_of_scales(const spec::WeightPacking& packing, std::int64_t elements, std::int64_t outputs) {
  if (packing.bits() == 8) return outputs * scale_bytes;
  const std::int64_t scales = divided(elements, packing.run);
  if (!packing.double_quantized) return scales * scale_bytes;
  return scales + divided(scales, scales_in_a_run) * scale_bytes + scale_bytes;  // and what they are centred on
}

std::int64_t bytes_of_codes(const spec::WeightPacking& packing, std::int64_t elements) {
  return divided(elements * packing.bits(), 8);
}

std::int64_t plain_bytes(const spec::TensorShape& tensor, WeightType type) {
  const bool is_parameter = tensor.kind == spec::TensorKind::parameter;
  return tensor.elements() * (is_parameter ? width_of(type) : spec::bytes_per_element(tensor.type));
}

// Weights that are one matrix in our engine: what reads the same rows.
enum class Joined { heads, output, feed, down, count };
Joined joined_of(spec::TensorRole role) {
  using enum spec::TensorRole;
  if (role == query || role == key || role == value || role == query_key_value) return Joined::heads;
  if (role == attention_output) return Joined::output;
  return role == gate || role == up ? Joined::feed : Joined::down;
}

}  // namespace

ModelWeight weigh(const spec::ModelShape& shape, WeightType type) {
  Workload plain;
  plain.weights = type;
  return weigh(shape, plain);
}

namespace {

// Per module: the block it lies in, by its first module.
std::vector<std::optional<std::size_t>> blocks_of_modules(const spec::ModelShape& shape) {
  std::vector<std::optional<std::size_t>> block_of(shape.modules.size());
  for (std::size_t module = 0; module < shape.modules.size(); ++module) {
    if (block_of[module] || !shape.is_whole(spec::ModuleId{module})) continue;
    for (std::size_t inner = module; inner < shape.modules[module].end; ++inner) block_of[inner] = module;
  }
  return block_of;
}

// peft keeps the model's tensor beside the one that is trained in its place; our engine has that one alone.
bool is_replaced(const Workload& workload, std::size_t tensor) {
  return workload.implementation == Implementation::muster && workload.adapters &&
         tensor < workload.adapters->whole.size() && workload.adapters->whole[tensor];
}

// What is known of a block while tensors are summed.
struct BlockSums {
  std::int64_t parameters = 0, bytes = 0;
  std::array<std::int64_t, static_cast<std::size_t>(Joined::count)> packed{};  // elements
};

}  // namespace

ModelWeight weigh(const spec::ModelShape& shape, const Workload& workload) {
  ModelWeight weight;
  if (workload.adapters) weight.adapters = workload.adapters->parameters;
  weight.tensor_bytes.resize(shape.tensors.size());
  std::vector<bool> is_packed(shape.tensors.size());
  if (workload.packed)
    for (const spec::TensorId id : workload.packed->tensors) is_packed[number(id)] = true;
  const std::vector<std::optional<std::size_t>> block_of = blocks_of_modules(shape);
  std::map<std::size_t, BlockSums> blocks;
  for (std::size_t i = 0; i < shape.tensors.size(); ++i) {
    const spec::TensorShape& tensor = shape.tensors[i];
    if (tensor.same_as || is_replaced(workload, i)) continue;
    const std::int64_t elements = tensor.elements();
    std::int64_t bytes = plain_bytes(tensor, workload.weights), scales = 0;
    if (is_packed[i]) {
      const spec::WeightPacking& packing = workload.packed->packing;
      const std::size_t outputs = shape.is_transposed(spec::TensorId{i}) ? 1 : 0;
      scales = bytes_of_scales(packing, elements, tensor.dimensions.sizes[outputs]);
      bytes = bytes_of_codes(packing, elements) + scales;
    }
    weight.tensor_bytes[i] = bytes;
    if (tensor.kind != spec::TensorKind::parameter) {
      weight.buffer_bytes += bytes;
      continue;
    }
    weight.parameters += elements;
    weight.parameter_bytes += bytes;
    weight.scale_bytes += scales;
    if (!spec::has_coded_states(elements, spec::is_embedding(tensor.role))) weight.uncoded += elements;
    if (tensor.dimensions.rank == 2) weight.matrices += elements;
    if (const auto block = block_of[number(tensor.owner)]) {
      BlockSums& sums = blocks[*block];
      sums.parameters += elements;
      sums.bytes += bytes;
      if (is_packed[i]) sums.packed[static_cast<std::size_t>(joined_of(tensor.role))] += elements;
      continue;
    }
    const bool after = !blocks.empty();
    weight.outside += elements;
    if (after) weight.after += elements;
    (after ? weight.held.last : weight.held.embedding) += bytes;
  }
  for (const auto& [module, sums] : blocks) {
    weight.block = std::max(weight.block, sums.parameters);
    weight.held.block = std::max(weight.held.block, sums.bytes);
    weight.unpacked = std::max(weight.unpacked, std::ranges::max(sums.packed));
  }
  return weight;
}

int compute_width(const Workload& workload) { return workload.mixed_precision ? 2 : width_of(workload.weights); }

LayerShare whole_model(const spec::ModelConfig& config, const ModelWeight& weight) {
  return {config.layers, true, true, weight.parameters, weight.parameter_bytes, weight.adapters, 1};
}

namespace {

constexpr std::int64_t master_width = 4;

// uncoded: those of the parameters whose states an optimizer with 8-bit states keeps in the width of the others.
std::int64_t optimizer_bytes(spec::OptimizerKind kind, std::int64_t parameters, std::int64_t uncoded,
                             std::int64_t width) {
  switch (kind) {
    case spec::OptimizerKind::adamw:
    case spec::OptimizerKind::adamw_fused:
      return 2 * width * parameters;
    case spec::OptimizerKind::adamw_8bit:
      return 2 * width * uncoded + 2 * spec::coded_state_bytes(parameters - uncoded);
    case spec::OptimizerKind::sgd:
      return 0;
    case spec::OptimizerKind::sgd_momentum:
      return width * parameters;
  }
  return 0;
}

std::int64_t tensor_degree(const Layout& layout) { return layout.scheme == Scheme::tensor ? layout.world : 1; }

std::int64_t shard_count(const Layout& layout) {
  if (layout.scheme != Scheme::fsdp || layout.sharding == spec::ShardingStrategy::no_shard) return 1;
  return layout.sharding == spec::ShardingStrategy::hybrid_shard ? layout.shard_group : layout.world;
}

bool is_sharded(const Layout& layout) {
  return layout.scheme == Scheme::fsdp && layout.sharding != spec::ShardingStrategy::no_shard;
}

// With our engine: weights in the type that is computed in, along with wide masters or, if the state is all narrow,
// without. transformers holds wide weights and casts.
bool trains_here(const Workload& workload) {
  return workload.work == Work::training && workload.implementation == Implementation::muster;
}
bool is_narrow_state(const Workload& workload) {
  return trains_here(workload) && !workload.adapters && !workload.mixed_precision &&
         workload.weights != WeightType::float32;
}

// Whether a rank of our engine holds one part of each unit. A single part is only useful to keep it elsewhere.
bool holds_parts(const Workload& workload, const Layout& layout) {
  return trains_here(workload) && is_sharded(layout) && (shard_count(layout) > 1 || layout.offload);
}

bool is_offloaded(const Layout& layout) { return layout.offload && !layout.on_cpu; }

// Bytes of weights while they are held for computing; packed ones follow from their tensors.
std::int64_t held_width(const Workload& workload) {
  if (trains_here(workload)) return compute_width(workload);
  return workload.mixed_precision ? master_width : width_of(workload.weights);
}

// Bytes held per parameter: of weights, and of what is trained.
struct StateWidths {
  std::int64_t weights = 0;
  std::int64_t master = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  std::int64_t weights_of_adapters = 0;
};

// peft holds adapters in 4 bytes, whatever the weights are. Those of our engine are states like any that is trained.
StateWidths adapter_widths(const Workload& workload, const Layout& layout) {
  const std::int64_t held = held_width(workload);
  if (!trains_here(workload)) return {held, 0, master_width, master_width, master_width};
  const bool from_masters = holds_parts(workload, layout) && held == master_width;
  return {held, master_width, workload.exact ? 2 * master_width : master_width, master_width, from_masters ? 0 : held};
}

StateWidths state_widths(const Workload& workload, const Layout& layout) {
  const std::int64_t held = held_width(workload);
  if (workload.adapters) return adapter_widths(workload, layout);
  if (!trains_here(workload)) return {held, 0, held, held};
  // The masters are the weights; those of a CPU are packed, and another copy.
  if (is_narrow_state(workload)) return {held, layout.on_cpu && !holds_parts(workload, layout) ? held : 0, held, held};
  // float32 units are gathered from the masters themselves.
  const bool from_masters = holds_parts(workload, layout) && held == master_width;
  return {from_masters ? 0 : held, master_width, workload.exact ? 2 * master_width : master_width, master_width};
}

Gathering gathering_of(const ModelWeight& weight, const Workload& workload, const Layout& layout) {
  Gathering gathering{{weight.outside - weight.after, weight.block, weight.after},
                      layout.sharding == spec::ShardingStrategy::shard_grad_op,
                      state_widths(workload, layout).gradients,
                      shard_count(layout),
                      is_offloaded(layout),
                      {}};
  if (!workload.adapters) return gathering;
  gathering.frozen = weight.held;
  gathering.units = {workload.adapters->before, workload.adapters->of_block, workload.adapters->after};
  return gathering;
}

StepRequest step_request(const spec::ModelConfig& config, const ModelWeight& weight, const Workload& workload,
                         const Layout& layout, const LayerShare& share) {
  const std::int64_t parts = tensor_degree(layout);
  StepRequest request;
  request.position_kind = config.position_kind;
  request.norm = config.norm;
  request.query_key_norm = config.query_key_norm;
  request.gated = config.gated;
  request.softmax_in_float32 = config.softmax_in_float32;
  request.hidden = config.hidden;
  request.query = divided(config.query_width(), parts);
  request.kv = divided(config.kv_width(), parts);
  request.heads = divided(config.heads, parts);
  request.grouped = config.kv_heads != config.heads;
  request.intermediate = divided(config.intermediate, parts);
  request.vocabulary = divided(config.vocabulary, parts);
  if (config.predicts_tokens()) request.head_outputs = request.vocabulary;
  if (config.score) request.head_outputs += config.score->outputs;
  request.layers = share.layers;
  request.has_embedding = share.embedding;
  request.has_head = share.head;
  request.tied = config.tied;
  request.qkv_bias = config.qkv_bias;
  request.output_bias = config.output_bias;
  request.mlp_bias = config.mlp_bias;
  request.dropout = config.dropout;
  const int compute = compute_width(workload);
  // FSDP gathers its units in the type that is computed in; elsewhere wide weights are cast as they are used.
  const bool casts = workload.mixed_precision && !trains_here(workload) && !is_sharded(layout);
  request.types = {casts ? static_cast<int>(master_width) : compute, compute};
  request.batch = workload.micro_batch * (workload.work == Work::training ? workload.together * share.in_flight : 1);
  request.weighed = workload.work == Work::training && workload.weighed;
  request.sequence = workload.work == Work::training
                         ? workload.sequence
                         : std::max<std::int64_t>(workload.sequence - workload.new_tokens, 1);
  request.attention = workload.attention;
  request.recomputation = workload.recomputation;
  request.gradients_stay = workload.accumulation == 1;
  request.unpacked = weight.unpacked * compute;
  if (workload.adapters) request.adapters = workload.adapters->block;
  if (workload.implementation != Implementation::muster) return request;
  request.exact = workload.exact;
  request.on_cpu = layout.on_cpu;
  if (holds_parts(workload, layout)) request.gathering = gathering_of(weight, workload, layout);
  return request;
}

// FSDP's units are whole for a moment: the root's all the time, a block's and the next one's. shard_grad_op keeps all
// of them between the passes. What our engine gathers is listed moment by moment.
std::int64_t gathered_bytes(const ModelWeight& weight, const Workload& workload, const Layout& layout) {
  if (trains_here(workload)) return 0;
  // What is in host memory is fetched like what is on other ranks.
  if (!is_sharded(layout) || (shard_count(layout) == 1 && !layout.offload)) return 0;
  const bool all = layout.sharding == spec::ShardingStrategy::shard_grad_op;
  if (workload.packed) {
    const std::int64_t codes = weight.parameter_bytes - weight.scale_bytes;
    return all ? codes : std::min(weight.held.embedding + weight.held.last + 2 * weight.held.block, codes);
  }
  const std::int64_t whole = all ? weight.parameters : std::min(weight.outside + 2 * weight.block, weight.parameters);
  return compute_width(workload) * whole;
}

void add_states(DeviceMemory& memory, const ModelWeight& weight, const Workload& workload, const Layout& layout,
                const LayerShare& share) {
  const std::int64_t parts = tensor_degree(layout), shards = shard_count(layout);
  const bool training = workload.work == Work::training;
  // Matrices are divided among tensor-parallel ranks, the rest is on all of them.
  const auto on_device = [&](std::int64_t parameters) {
    if (parts == 1) return divided(parameters, shards);
    const std::int64_t matrices = std::min(weight.matrices, parameters);
    return divided(matrices, parts) + parameters - matrices;
  };
  const std::int64_t parameters = on_device(share.parameters);
  const StateWidths widths = state_widths(workload, layout);
  if (workload.packed) {
    // PyTorch's FSDP leaves scales out: each rank has all of them.
    const std::int64_t whole = shards > 1 && !trains_here(workload) ? weight.scale_bytes : 0;
    memory[Component::weights] = parameters * weight_bits(workload) / 8;
    memory[Component::quantization] =
        on_device(share.parameter_bytes - whole) + whole - memory[Component::weights];
  } else {
    memory[Component::weights] = parameters * widths.weights;
  }
  memory[Component::buffers] = weight.buffer_bytes;
  const std::int64_t adapters = divided(share.adapters, parts * shards);
  if (workload.reference)
    memory[Component::reference] =
        workload.packed ? share.parameter_bytes : share.parameters * compute_width(workload);
  memory[Component::reward_model] = workload.reward_model;
  if (!training) {
    memory[Component::adapters] = adapters * compute_width(workload);
    return;
  }
  if (workload.adapters) {
    // Units with magnitudes are gathered from their masters, which are as wide as these.
    const bool from_masters = holds_parts(workload, layout) && workload.adapters->block.decomposed;
    const std::int64_t outside = divided(workload.adapters->before + workload.adapters->after, parts * shards);
    const std::int64_t uncoded = divided(std::min(workload.adapters->uncoded, share.adapters), parts * shards);
    memory[Component::adapters] = (from_masters ? outside : adapters) * widths.weights_of_adapters +
                                  adapters * (widths.master + widths.gradients) +
                                  optimizer_bytes(workload.optimizer, adapters, uncoded, widths.optimizer);
    return;
  }
  memory[Component::master] = parameters * widths.master;
  memory[Component::gradients] = parameters * widths.gradients;
  const std::int64_t uncoded = on_device(std::min(weight.uncoded, share.parameters));
  memory[Component::optimizer] =
      optimizer_bytes(workload.optimizer, parameters, std::min(uncoded, parameters), widths.optimizer);
  // Our engine sums gradients in place.
  const bool replicated =
      layout.scheme == Scheme::ddp || (layout.scheme == Scheme::fsdp && !is_sharded(layout) && layout.world > 1);
  if (replicated && !trains_here(workload)) memory[Component::buckets] = memory[Component::gradients];
}

// AdamW over all tensors at once makes a list of square roots as large as the parameters.
std::int64_t step_temporaries(const DeviceMemory& memory, const Workload& workload) {
  if (workload.optimizer != spec::OptimizerKind::adamw || workload.implementation == Implementation::muster) return 0;
  return workload.adapters ? memory[Component::adapters] / 4 : memory[Component::gradients];
}

// States that shards keep in host memory instead.
void offload(DeviceMemory& memory) {
  for (const Component component : {Component::weights, Component::quantization, Component::master,
                                    Component::gradients, Component::optimizer, Component::adapters}) {
    memory.host += memory[component];
    memory[component] = 0;
  }
}

// How gradients of weights are counted in addition to the component that shows them at their full size.
struct GradientCount {
  bool growing = true;        // they appear during the backward pass; otherwise they exist from the start
  std::int64_t shards = 1;    // a rank keeps one part of this many
  std::int64_t widening = 1;  // a kept gradient is this many times as wide as one that is made
  std::int64_t unit = 0;      // FSDP: bytes of the units whose gradients are whole before they are reduced
  bool leave = false;         // for host memory, as soon as they are reduced

  // Bytes of the gradients that a pass has made up to a moment, as far as they are temporary: whole ones that are not
  // reduced yet, and those of a pass that are added to existing sums.
  std::int64_t passing(std::int64_t made) const {
    if (shards == 1 && !leave) return growing ? 0 : made;
    return std::min(made, unit);
  }
  // Bytes by which the permanent ones differ at that moment from the component that shows them.
  std::int64_t standing(std::int64_t made, std::int64_t component) const {
    return leave || !growing ? 0 : divided(made * widening, shards) - component;
  }
};

// Bytes above the states.
struct Height {
  std::int64_t peak = 0;    // at the highest moment
  std::int64_t needed = 0;  // the most over all moments, each with its slack
};

// The highest moment decides what the components show. Gradients and keys and values are shown at the size they grow
// to; at a moment when they are smaller, the difference is taken off activations: nothing is counted twice,
// and the sum is the peak. slack: bytes that the allocator needs for each temporary byte.
Height add_highest_moment(DeviceMemory& memory, const std::vector<Moment>& moments, const GradientCount& gradients,
                          double slack) {
  const auto part = [](const Moment& moment, Holding holding) {
    return moment.held[static_cast<std::size_t>(holding)];
  };
  const std::int64_t always = memory[Component::gathered];
  Height height{0, static_cast<std::int64_t>(static_cast<double>(always) * slack)};
  const Moment* decisive = &moments.front();
  for (const Moment& moment : moments) {
    const std::int64_t made = part(moment, Holding::gradients);
    const std::int64_t passing = part(moment, Holding::activations) + part(moment, Holding::logits) +
                                 part(moment, Holding::kv_cache) + part(moment, Holding::gathered) +
                                 gradients.passing(made);
    const std::int64_t above =
        passing - memory[Component::kv_cache] + gradients.standing(made, memory[Component::gradients]);
    const auto room = static_cast<std::int64_t>(static_cast<double>(passing + always) * slack);
    height.needed = std::max(height.needed, above + room);
    if (above <= height.peak) continue;
    height.peak = above;
    decisive = &moment;
  }
  memory.moment = decisive->name;
  memory[Component::logits] = std::min(part(*decisive, Holding::logits), height.peak);
  memory[Component::gathered] += part(*decisive, Holding::gathered);
  memory[Component::activations] = height.peak - memory[Component::logits] - part(*decisive, Holding::gathered);
  return height;
}

// The optimizer steps over what the rank keeps, when nothing is gathered and no activation is left.
void consider_optimizer_step(DeviceMemory& memory, std::int64_t above_states, std::int64_t temporaries) {
  if (temporaries <= above_states + memory[Component::gathered]) return;
  memory.moment = "optimizer step";
  for (const Component component : {Component::activations, Component::logits, Component::gathered})
    memory[component] = 0;
  memory[Component::workspace] += temporaries;
}

// Freed blocks that no later tensor fits: a share of the temporary bytes.
double slack_share(const Workload& workload, const MemoryConstants& constants) {
  if (workload.expandable_segments) return constants.slack_expandable;
  return workload.recomputation != spec::Recomputation::none ? constants.slack_checkpointing : constants.slack;
}

// Copies that several ranks hold together: all ranks, those of a copy, and those of a part.
std::int64_t communicators(const Layout& layout) {
  const bool grouped = layout.scheme == Scheme::fsdp && layout.sharding == spec::ShardingStrategy::hybrid_shard &&
                       layout.shard_group < layout.world;
  return grouped ? 3 : 1;
}

}  // namespace

DeviceMemory device_memory(const spec::ModelConfig& config, const ModelWeight& weight, const Workload& workload,
                           const Layout& layout, const LayerShare& share, const MemoryConstants& constants,
                           StepMemo* memo) {
  DeviceMemory memory;
  const bool training = workload.work == Work::training;
  const StepRequest request = step_request(config, weight, workload, layout, share);
  add_states(memory, weight, workload, layout, share);
  memory[Component::gathered] = gathered_bytes(weight, workload, layout);
  const std::int64_t temporaries = training ? step_temporaries(memory, workload) : 0;
  if (is_offloaded(layout)) offload(memory);

  memory[Component::workspace] = constants.cublas_workspace * (training ? 2 : 1);
  const double slack = slack_share(workload, constants);
  Height height;
  if (training) {
    const bool sharded = is_sharded(layout);
    // The sums of our engine exist from the start.
    const bool growing = request.gradients_stay && workload.implementation != Implementation::muster;
    const GradientCount gradients{
        growing, sharded ? shard_count(layout) : 1, sharded ? held_width(workload) / request.types.weight : 1,
        compute_width(workload) * (weight.outside + weight.block), sharded && is_offloaded(layout)};
    StepMemo alone;
    height =
        add_highest_moment(memory, (memo != nullptr ? *memo : alone).training(workload.implementation, request),
                           gradients, slack);
  } else {
    const bool own = workload.implementation == Implementation::muster;
    if (workload.new_tokens > 0 || own)
      memory[Component::kv_cache] = 2 * share.layers * request.kv * request.types.compute * workload.micro_batch *
                                    (own ? muster_cached_tokens(workload.sequence) : workload.sequence);
    height = add_highest_moment(memory, inference_moments(workload.implementation, request, workload.new_tokens), {},
                                slack);
  }
  // The optimizer step has no slack. If it is the peak, the passes may still need more, with theirs.
  const std::int64_t needed = memory.peak() - height.peak + height.needed;
  if (training && !is_offloaded(layout)) consider_optimizer_step(memory, height.peak, temporaries);
  memory[Component::slack] = std::max<std::int64_t>(needed - memory.peak(), 0);
  const bool exchanges = layout.world > 1 && layout.scheme != Scheme::replicas && layout.scheme != Scheme::layer_split;
  memory[Component::nccl] = exchanges ? communicators(layout) * constants.nccl_communicator : 0;
  memory[Component::context] = constants.cuda_context;
  return memory;
}

}  // namespace muster::plan
