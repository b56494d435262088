// Inference: the model on each GPU if it fits on one, otherwise its layers divided among them.
#include <fmt/format.h>

#include <algorithm>

#include "base/byte_count.hpp"
#include "plan/compat_map.hpp"
#include "plan/plan_parts.hpp"

namespace muster::plan {
namespace {

constexpr std::int64_t most_prompts = 4096;

// Which device each unit of the model is on: positions in the question's devices, then cpu, then disk.
struct Assignment {
  std::vector<std::size_t> device_of;
  DeviceMap map;
  std::int64_t duplicated = 0;
};

class InferencePlanner {
 public:
  explicit InferencePlanner(const Question& question)
      : question_(question),
        config_(question.model->config),
        weight_(weigh(question.model->shape, question.workload)),
        units_(split_units(question.model->shape, held_bytes(question, weight_))),
        counts_(split_units(question.model->shape, elements(question.model->shape))),
        adapters_(split_units(question.model->shape, adapter_elements(question))) {
    batch_ = question.micro_batch.value_or(question.workload.micro_batch);
  }

  Result<Plan> plan() {
    if (auto problem = contradiction()) return *problem;
    if (question_.devices.empty() || asks_for_cpu()) return on_the_host();
    if (question_.map) return mapped(*question_.map);
    if (question_.scheme == Scheme::pipeline || question_.scheme == Scheme::layer_split)
      return shared_out(spec::MapRule::balanced, "as asked");
    if (question_.scheme)
      return equal(*question_.scheme == Scheme::ddp ? Scheme::replicas : *question_.scheme, "as asked");
    const bool one = question_.devices.size() == 1 && question_.hosts == 1;
    Plan whole = equal(one ? Scheme::single : Scheme::replicas,
                       one ? "the model fits the GPU" : "the model fits each GPU, so each works on prompts of its own");
    if (whole.fits() || one) {
      // What does not fit on one GPU may go to the host if the user allows it.
      if (!whole.fits() && (question_.cpu_limit || question_.disk_limit))
        return shared_out(spec::MapRule::balanced, off_gpu_reason);
      if (!whole.fits()) whole.reasons.front() = "single: there is one GPU";
      return whole;
    }
    return shared_out(spec::MapRule::balanced,
                      fmt::format("{} do not fit one GPU; layers are shared out, which adds memory, not speed: for one "
                                  "batch the GPUs work one after another",
                                  to_string(ByteCount{whole.ranks.front().memory.total()})));
  }

 private:
  static constexpr std::string_view off_gpu_reason = "what the GPU cannot hold lies in host memory, as allowed";

  static std::vector<std::int64_t> adapter_elements(const Question& question) {
    if (question.workload.adapters) return question.workload.adapters->by_tensor;
    return std::vector<std::int64_t>(question.model->shape.tensors.size());
  }

  // Parameters, and the adapters beside them. Buffers are on every device, whatever the split.
  static std::vector<std::int64_t> held_bytes(const Question& question, const ModelWeight& weight) {
    std::vector<std::int64_t> bytes = adapter_elements(question);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] *= compute_width(question.workload);
      if (question.model->shape.tensors[i].kind == spec::TensorKind::parameter) bytes[i] += weight.tensor_bytes[i];
    }
    return bytes;
  }

  static std::vector<std::int64_t> elements(const spec::ModelShape& shape) {
    std::vector<std::int64_t> counts;
    for (const spec::TensorShape& tensor : shape.tensors)
      counts.push_back(tensor.kind == spec::TensorKind::parameter ? tensor.elements() : 0);
    return counts;
  }

  bool asks_for_cpu() const {
    if (!question_.map) return false;
    if (const auto* rule = std::get_if<spec::MapRule>(&*question_.map)) return *rule == spec::MapRule::cpu;
    const auto& table = std::get<std::map<std::string, std::string>>(*question_.map);
    return table.size() == 1 && table.begin()->first.empty() && table.begin()->second == "cpu";
  }

  std::optional<Error> contradiction() const {
    const std::int64_t world = std::ssize(question_.devices);
    if (question_.scheme == Scheme::single && world > 1)
      return Error{Error::Kind::bad_input, fmt::format("the strategy is single, and there are {} GPUs", world),
                   "--num-gpus 1, or no --strategy"};
    if (question_.scheme == Scheme::tensor && (config_.kv_heads % world != 0 || config_.intermediate % world != 0))
      return Error{Error::Kind::bad_input,
                   fmt::format("{} GPUs do not divide {} key-value heads and {} columns of the feed-forward layers",
                               world, config_.kv_heads, config_.intermediate),
                   dividing_gpus(config_, world)};
    return std::nullopt;
  }

  Workload workload(std::int64_t batch, std::int64_t new_tokens) const {
    Workload made = question_.workload;
    made.micro_batch = batch;
    made.new_tokens = new_tokens;
    return made;
  }

  Layout layout(Scheme scheme) const {
    const std::int64_t world = question_.hosts * std::ssize(question_.devices);
    // Only FSDP has shards to offload.
    return {scheme, question_.sharding, question_.offload && scheme == Scheme::fsdp,
            scheme == Scheme::single ? 1 : world, std::ssize(question_.devices)};
  }

  DeviceMemory memory(const Layout& where, const LayerShare& share, const Workload& work) const {
    DeviceMemory needed = device_memory(config_, weight_, work, where, share, question_.constants);
    if (question_.as_stages && where.scheme == Scheme::layer_split && question_.devices.size() > 1) {
      needed[Component::nccl] = question_.constants.nccl_communicator;
      needed[Component::kv_cache] *= std::ssize(question_.devices);  // a batch for each stage is in flight
    }
    return needed;
  }

  Plan started(const Layout& where) const {
    Plan plan;
    plan.layout = where;
    plan.parameters = weight_.parameters;
    plan.workload = workload(batch_, question_.workload.new_tokens);
    plan.effective_batch = batch_ * (where.scheme == Scheme::replicas ? where.world : 1);
    return plan;
  }

  // Every device gets the same.
  Plan equal(Scheme scheme, std::string_view reason) const {
    const Layout where = layout(scheme);
    Plan plan = started(where);
    const LayerShare share = whole_model(config_, weight_);
    plan.ranks = equal_ranks(question_, memory(where, share, plan.workload), hosts_to_tell(question_));
    plan.reasons.push_back(fmt::format("{}: {}", name(scheme), reason));
    plan.refusal = refusal_of(plan, question_.host_memory);
    if (plan.fits() && question_.detail == Detail::everything) {
      const std::int64_t limit = std::ranges::min(question_.devices, {}, &PlanDevice::limit).limit;
      plan.batches = advise([&](const Workload& work) { return memory(where, share, work).total() <= limit; });
    }
    return plan;
  }

  // No GPU, or none wanted.
  Plan on_the_host() const {
    Plan plan = started(layout(Scheme::single));
    plan.layout.world = 1;
    plan.ranks = {cpu_rank(question_, memory(plan.layout, whole_model(config_, weight_), plan.workload))};
    plan.map = DeviceMap{{{"", on_cpu()}}};
    plan.off_gpu = {{on_cpu(), weight_.parameter_bytes}};
    plan.reasons.push_back(question_.devices.empty() ? "single: there is no GPU, one CPU rank computes"
                                                     : "single: the device map puts everything on the CPU");
    plan.refusal = refusal_of(plan, question_.host_memory);
    return plan;
  }

  Result<Plan> mapped(const spec::DeviceMap& wanted) {
    if (const auto* rule = std::get_if<spec::MapRule>(&wanted)) {
      if (*rule != spec::MapRule::cuda) return shared_out(*rule, fmt::format("device map {}", rule_name(*rule)));
      return on_one(question_.devices.front().number);
    }
    const auto& table = std::get<std::map<std::string, std::string>>(wanted);
    auto map = custom_map(question_.model->shape, {table.begin(), table.end()}, budgets());
    if (!map) return map.error();
    if (map->entries.size() == 1 && map->entries[0].second.kind == Place::Kind::gpu)
      return on_one(map->entries[0].second.gpu);
    return laid_out(from_map(std::move(*map)), "device map as written");
  }

  static std::string_view rule_name(spec::MapRule rule) {
    for (const auto& word : spec::words(spec::MapRule{}))
      if (word.value == rule) return word.text;
    return {};
  }

  Result<Plan> on_one(int number) const {
    Question alone = question_;
    std::erase_if(alone.devices, [number](const PlanDevice& device) { return device.number != number; });
    alone.map.reset();
    alone.scheme = Scheme::single;
    InferencePlanner planner(alone);
    Plan plan = planner.equal(Scheme::single, fmt::format("the device map puts everything on GPU {}", number));
    plan.map = DeviceMap{{{"", on_gpu(number)}}};
    return plan;
  }

  std::vector<Budget> budgets() const {
    std::vector<Budget> list;
    for (const PlanDevice& device : question_.devices) list.push_back({on_gpu(device.number), ByteCount{device.limit}});
    if (question_.cpu_limit) list.push_back({on_cpu(), ByteCount{*question_.cpu_limit}});
    if (question_.disk_limit) list.push_back({on_disk(), ByteCount{*question_.disk_limit}});
    return list;
  }

  std::vector<Place> places() const {
    std::vector<Place> list;
    for (const Budget& budget : budgets()) list.push_back(budget.place);
    return list;
  }

  Result<Plan> shared_out(spec::MapRule rule, std::string_view reason) {
    if (question_.planner != Planner::optimal) return by_other_rules(rule, reason);
    auto assignment = best_split(rule);
    if (!assignment) return assignment.error();
    return laid_out(std::move(*assignment), reason);
  }

  // The exact split; if none fits, the split of devices larger in proportion, so that the table shows which one lacks
  // how much.
  Result<Assignment> best_split(spec::MapRule rule) {
    SplitRequest request = split_request(rule);
    const std::vector<std::size_t> joined = question_.as_stages ? join_ends(request) : std::vector<std::size_t>();
    for (int growth = 0; growth < 48; ++growth) {
      auto found = find_split(request);
      if (!found) return found.error();
      if (auto* split = std::get_if<Split>(&*found)) {
        if (question_.as_stages) split->device_of = device_of_each(joined, split->device_of);
        return Assignment{split->device_of, to_device_map(question_.model->shape, units_, *split, request.devices),
                          split->duplicated};
      }
      for (SplitDevice& device : request.devices)
        if (device.place.kind == Place::Kind::gpu) device.capacity += device.capacity / 2 + 1;
    }
    return Error{Error::Kind::refused, "the model is larger than these devices by far",
                 "more GPUs, or a smaller model"};
  }

  // What comes before the blocks becomes one unit with the first of them, what comes after with the last. Returns for
  // each of the model's units its unit in the request.
  std::vector<std::size_t> join_ends(SplitRequest& request) const {
    const std::size_t last = static_cast<std::size_t>(std::ranges::count(units_.roles, UnitRole::block)) - 1;
    std::vector<std::size_t> joined;
    std::vector<Unit> units(last + 1);
    std::size_t block = 0;
    for (std::size_t i = 0; i < units_.units.size(); ++i) {
      const UnitRole role = units_.roles[i];
      joined.push_back(role == UnitRole::before_blocks ? 0 : role == UnitRole::after_blocks ? last : block++);
      Unit& unit = units[joined.back()];
      if (role == UnitRole::block) unit.path = units_.units[i].path;
      unit.bytes += request.units[i].bytes;
      unit.workspace = std::max(unit.workspace, request.units[i].workspace);
    }
    request.units = std::move(units);
    for (SharedBytes& pair : request.shared) pair = {joined[pair.first], joined[pair.second], pair.bytes};
    std::erase_if(request.shared, [](const SharedBytes& pair) { return pair.first == pair.second; });
    return joined;
  }

  static std::vector<std::size_t> device_of_each(const std::vector<std::size_t>& joined,
                                                 const std::vector<std::size_t>& device_of) {
    std::vector<std::size_t> devices;
    for (const std::size_t unit : joined) devices.push_back(device_of[unit]);
    return devices;
  }

  SplitRequest split_request(spec::MapRule rule) const {
    SplitRequest request;
    request.units = units_.units;
    request.shared = units_.shared;
    request.goal = rule == spec::MapRule::balanced_low_0 ? SplitGoal::low_first
                   : rule == spec::MapRule::sequential   ? SplitGoal::sequential
                                                         : SplitGoal::balanced;
    const Workload work = workload(batch_, question_.workload.new_tokens);
    const Layout where = layout(Scheme::layer_split);
    const auto needs = [&](std::int64_t layers, bool head) {
      return memory(where, LayerShare{layers, false, head, 0, 0, 0, 1}, work);
    };
    // What one more block adds on top of its weights: keys and values, and the slack they bring; it is largest if there
    // are many already. One byte for the rounding of the slack.
    const std::int64_t many = std::max<std::int64_t>(config_.layers, 2);
    const std::int64_t more = needs(many, false).total() - needs(many - 1, false).total() + 1;
    const DeviceMemory one = needs(1, false);
    const std::int64_t fixed = one[Component::context] + one[Component::workspace] + weight_.buffer_bytes;
    // The second block needs what the first leaves behind in addition to its own.
    const auto for_a_moment = [&](bool head) {
      return std::max({needs(1, head).total() - more, needs(2, head).total() - 2 * more, fixed}) - fixed;
    };
    const std::int64_t of_block = for_a_moment(false), of_head = for_a_moment(true);
    for (std::size_t i = 0; i < request.units.size(); ++i) {
      if (units_.roles[i] == UnitRole::block) request.units[i].bytes += more;
      request.units[i].workspace = units_.roles[i] == UnitRole::after_blocks ? of_head : of_block;
    }
    for (const Budget& budget : budgets())
      request.devices.push_back({budget.place, std::min(budget.bytes.value, largest_capacity),
                                 budget.place.kind == Place::Kind::gpu ? fixed : 0});
    return request;
  }

  Result<Plan> by_other_rules(spec::MapRule rule, std::string_view reason) {
    CompatRequest request;
    request.rules = question_.planner == Planner::accelerate ? CompatRules::accelerate : CompatRules::transformers;
    request.whole_classes = question_.model->shape.whole_classes;
    request.limits_given = question_.limits_given;
    const bool packs = question_.planner == Planner::transformers && question_.workload.packed;
    if (packs) request.special_elements = packed_elements();
    if (question_.planner == Planner::accelerate) request.element_bytes = weight_bits(question_.workload) / 8.0;
    auto balanced = rule == spec::MapRule::sequential ? sequential_budgets(request, budgets())
                                                      : balanced_budgets(question_.model->shape, request, budgets(),
                                                                         rule == spec::MapRule::balanced_low_0);
    if (!balanced) return balanced.error();
    auto map = compat_map(question_.model->shape, request, packs ? budgets_of_packed(std::move(*balanced)) : *balanced);
    if (!map) return map.error();
    Plan plan = laid_out(from_map(std::move(*map)), reason);
    if (packs && !question_.packed_off_gpus) refuse_off_gpu(plan);
    return plan;
  }

  // Bytes of an element, by the paths of packed weights; scales are not counted.
  std::map<std::string, double> packed_elements() const {
    std::map<std::string, double> elements;
    for (const spec::TensorId id : question_.workload.packed->tensors)
      elements[question_.model->shape.path(id)] = weight_bits(question_.workload) / 8.0;
    return elements;
  }

  // As transformers refuses it.
  static void refuse_off_gpu(Plan& plan) {
    std::int64_t bytes = 0;
    for (const auto& [place, held] : plan.off_gpu) bytes += held;
    if (bytes == 0) return;
    plan.refusal = Refusal{fmt::format("transformers' rules put {} on cpu or disk, where it has no packed weights unless "
                                       "model.llm_int8_enable_fp32_cpu_offload=true",
                                       to_string(ByteCount{bytes})),
                           bytes,
                           {}};
  }

  // Where a map puts each unit; a place without a budget counts as beyond the devices.
  Assignment from_map(DeviceMap map) const {
    const std::vector<Place> known = places();
    Assignment assignment{{}, std::move(map), 0};
    for (const Unit& unit : units_.units) {
      const auto place = assignment.map.find(unit.path);
      const auto found = place ? std::ranges::find(known, *place) : known.end();
      assignment.device_of.push_back(static_cast<std::size_t>(found - known.begin()));
    }
    for (const SharedBytes& pair : units_.shared)
      if (assignment.device_of[pair.first] != assignment.device_of[pair.second]) assignment.duplicated += pair.bytes;
    return assignment;
  }

  Plan laid_out(Assignment assignment, std::string_view reason) const {
    const Layout where = layout(Scheme::layer_split);
    Plan plan = started(where);
    const std::vector<LayerShare> shares = shares_of(assignment);
    const std::vector<LayerRange> ranges = ranges_of(assignment);
    for (std::size_t i = 0; i < question_.devices.size(); ++i)
      plan.ranks.push_back({static_cast<int>(i), 0, question_.devices[i], memory(where, shares[i], plan.workload),
                            question_.devices[i].limit, ranges[i]});
    add_off_gpu(plan, assignment);
    if (question_.as_stages && !plan.off_gpu.empty()) add_visits(plan, assignment);
    plan.duplicated = assignment.duplicated;
    plan.map = std::move(assignment.map);
    plan.reasons.push_back(fmt::format("layer_split: {}", reason));
    if (auto refusal = refusal_of(plan, question_.host_memory)) plan.refusal = std::move(refusal);
    if (plan.fits() && question_.detail == Detail::everything) plan.batches = advise_split(where, shares);
    return plan;
  }

  // Modules beyond the GPUs: on cpu and disk if that was allowed, otherwise a refusal.
  void add_off_gpu(Plan& plan, const Assignment& assignment) const {
    std::map<Place, std::int64_t> bytes;
    for (std::size_t i = 0; i < units_.units.size(); ++i) {
      if (assignment.device_of[i] < question_.devices.size()) continue;
      bytes[assignment.map.find(units_.units[i].path).value_or(on_disk())] += units_.units[i].bytes;
    }
    plan.off_gpu.assign(bytes.begin(), bytes.end());
    for (const auto& [place, size] : bytes) {
      const bool allowed = place == on_cpu() ? question_.cpu_limit.has_value() : question_.disk_limit.has_value();
      if (allowed) continue;
      plan.refusal = Refusal{fmt::format("the device map puts {} on {}, which was not asked for",
                                         to_string(ByteCount{size}), to_string(place)),
                             size,
                             {}};
    }
  }

  // What is not on the devices is brought there for a moment; its largest part decides.
  void add_visits(Plan& plan, const Assignment& assignment) const {
    const std::vector<std::size_t> computing = computed_on(assignment);
    for (std::size_t i = 0; i < units_.units.size(); ++i) {
      if (assignment.device_of[i] < question_.devices.size()) continue;
      RankPlan& rank = plan.ranks[computing[i]];
      const std::int64_t bytes = units_.units[i].bytes + shared_with(i);
      rank.memory[Component::gathered] = std::max(rank.memory[Component::gathered], bytes);
      if (assignment.map.find(units_.units[i].path) == on_cpu()) rank.memory.host += bytes;
      rank.limit = std::max(rank.limit, question_.devices[computing[i]].free);
    }
  }

  // Bytes of a tied tensor that are counted with another unit.
  std::int64_t shared_with(std::size_t unit) const {
    std::int64_t bytes = 0;
    for (const SharedBytes& pair : units_.shared)
      if (pair.second == unit) bytes += pair.bytes;
    return bytes;
  }

  // Where each unit is computed: those not on the devices, where the unit before them is.
  std::vector<std::size_t> computed_on(const Assignment& assignment) const {
    if (!question_.as_stages) return assignment.device_of;
    const auto on_device = [&](std::size_t device) { return device < question_.devices.size(); };
    const auto first = std::ranges::find_if(assignment.device_of, on_device);
    std::size_t current = first == assignment.device_of.end() ? 0 : *first;
    std::vector<std::size_t> computing;
    for (const std::size_t device : assignment.device_of) {
      if (on_device(device)) current = device;
      computing.push_back(current);
    }
    return computing;
  }

  std::vector<LayerShare> shares_of(const Assignment& assignment) const {
    const std::vector<std::size_t> computing = computed_on(assignment);
    std::vector<LayerShare> shares(question_.devices.size(), LayerShare{0, false, false, 0, 0, 0, 1});
    for (std::size_t i = 0; i < units_.units.size(); ++i) {
      if (computing[i] >= shares.size()) continue;
      LayerShare& share = shares[computing[i]];
      if (assignment.device_of[i] < shares.size()) {
        const std::int64_t adapters = adapters_.units[i].bytes;
        share.parameters += counts_.units[i].bytes;
        share.adapters += adapters;
        share.parameter_bytes += units_.units[i].bytes - adapters * compute_width(question_.workload);
      }
      if (units_.roles[i] == UnitRole::block) ++share.layers;
      if (units_.roles[i] == UnitRole::before_blocks) share.embedding = true;
      if (i + 1 == units_.units.size()) share.head = true;
    }
    for (std::size_t pair = 0; pair < units_.shared.size(); ++pair) {
      const auto& shared = units_.shared[pair];
      const std::size_t second = assignment.device_of[shared.second];
      if (assignment.device_of[shared.first] == second || second >= shares.size()) continue;
      shares[second].parameters += counts_.shared[pair].bytes;
      shares[second].parameter_bytes += shared.bytes;
    }
    return shares;
  }

  std::vector<LayerRange> ranges_of(const Assignment& assignment) const {
    std::vector<SplitDevice> devices;
    for (const Place place : places()) devices.push_back({place, 0, 0});
    devices.push_back({on_disk(), 0, 0});  // for everything beyond what was given
    return layer_ranges(units_, Split{computed_on(assignment), {}, 0, 0}, devices);
  }

  // Devices with equal shares need the same: the one that may use the least decides.
  BatchAdvice advise_split(const Layout& where, const std::vector<LayerShare>& shares) const {
    std::vector<std::pair<LayerShare, std::int64_t>> distinct;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      const auto same = std::ranges::find(distinct, shares[i], [](const auto& entry) { return entry.first; });
      if (same == distinct.end())
        distinct.emplace_back(shares[i], question_.devices[i].limit);
      else
        same->second = std::min(same->second, question_.devices[i].limit);
    }
    return advise([&](const Workload& work) {
      return std::ranges::all_of(
          distinct, [&](const auto& entry) { return memory(where, entry.first, work).total() <= entry.second; });
    });
  }

  template <class Fits>
  BatchAdvice advise(Fits fits) const {
    const std::int64_t answer = std::max<std::int64_t>(question_.workload.new_tokens, 1);
    return {largest_that(most_prompts, [&](std::int64_t size) { return fits(workload(size, answer)); }),
            largest_that(most_prompts, [&](std::int64_t size) { return fits(workload(size, 0)); })};
  }

  const Question& question_;
  const spec::ModelConfig& config_;
  ModelWeight weight_;
  SplitUnits units_;
  SplitUnits counts_;    // the same units, parameters instead of bytes
  SplitUnits adapters_;  // likewise of the adapters
  std::int64_t batch_ = 1;
};

}  // namespace

Result<Plan> plan_inference(const Question& question) { return InferencePlanner(question).plan(); }

}  // namespace muster::plan
