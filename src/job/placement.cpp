#include "job/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/byte_count.hpp"
#include "base/count_of.hpp"
#include "base/text.hpp"
#include "plan/plan_parts.hpp"

namespace muster::job {
namespace {

using plan::PlanDevice;
using plan::RankPlan;
using plan::UnitRole;
using CustomMap = std::map<std::string, std::string>;

// Where one process computes.
struct Seat {
  PlanDevice device;              // as the planner sees it
  std::optional<PlanDevice> gpu;  // absent: a CPU rank
};

bool names(const CustomMap& map, std::string_view place) {
  return std::ranges::any_of(map, [&](const auto& entry) { return entry.second == place; });
}

class Placing {
 public:
  explicit Placing(const PlacementOptions& options) : options_(options), question_(options.question) {
    question_.as_stages = true;
    question_.detail = plan::Detail::plan;
  }

  Result<Placement> place() {
    if (on_cpus() && question_.map && *question_.map == spec::DeviceMap{spec::MapRule::cuda})
      return Error{Error::Kind::bad_input, "the device map is cuda, and CPU ranks compute",
                   "leave --device-map out, or compute on GPUs: --device cuda"};
    if (is_plain()) return one_cpu_rank();
    if (auto seated = take_seats(); !seated) return seated.error();
    if (auto allowed = allow_what_the_map_names(); !allowed) return allowed.error();
    const auto* rule = question_.map ? std::get_if<spec::MapRule>(&*question_.map) : nullptr;
    if (question_.map && rule == nullptr) return by_hand();
    if (rule == nullptr || *rule == spec::MapRule::automatic) return fewest_devices();
    if (*rule == spec::MapRule::cpu && !on_cpus())
      return Error{Error::Kind::bad_input, "the device map is cpu, and GPUs compute",
                   "--device cpu computes on the CPU; model.max_memory with cpu keeps layers in its memory"};
    if (*rule == spec::MapRule::cpu || *rule == spec::MapRule::cuda) {
      if (!on_cpus()) seats_.resize(1);
      question_.map.reset();
      return replicas_of(1);
    }
    return over(*rule == spec::MapRule::sequential ? filled_in_order() : most_stages(), 1);
  }

 private:
  bool on_cpus() const { return options_.question.devices.empty(); }
  bool may_offload() const { return question_.cpu_limit || question_.disk_limit; }

  bool is_plain() const {
    const bool written = question_.map && std::holds_alternative<CustomMap>(*question_.map);
    return on_cpus() && options_.ranks == 1 && !written && !question_.disk_limit &&
           std::ranges::none_of(options_.limits,
                                [](const auto& limit) { return parse_number<int>(limit.first).has_value(); });
  }
  Result<Placement> one_cpu_rank() const {
    plan::Question question = options_.question;
    question.constants.cublas_workspace = process_bytes;
    auto made = plan::make_plan(question);
    if (!made) return made.error();
    Placement placement;
    placement.plan = std::move(*made);
    return placement;
  }

  Result<void> take_seats() {
    if (!on_cpus()) return take_gpus();
    const auto count = static_cast<std::int64_t>(options_.ranks);
    const auto all = question_.cpu_limit ? question_.cpu_limit : question_.host_memory;
    for (int rank = 0; rank < options_.ranks; ++rank) {
      PlanDevice device{rank, "", "", plan::unknown_limit, plan::unknown_limit};
      if (all) device.limit = *all / count;
      if (question_.host_memory) device.free = *question_.host_memory / count;
      if (const auto given = options_.limits.find(std::to_string(rank)); given != options_.limits.end())
        device.limit = given->second.value;
      seats_.push_back({device, std::nullopt});
    }
    for (const auto& [place, bytes] : options_.limits)
      if (const auto rank = parse_number<int>(place); rank && *rank >= options_.ranks)
        return Error{Error::Kind::bad_input,
                     fmt::format("max_memory names rank {}, and there are {}", *rank, count_of(seats_.size(), "rank")),
                     "ranks are numbered from 0; --ranks says how many there are"};
    question_.cpu_limit.reset();  // it is the ranks' own memory
    question_.host_memory.reset();
    question_.constants = {0, process_bytes, 0, 0, 0, 0};
    return {};
  }

  // Ranks that share a GPU share its memory, and talk through the host's.
  Result<void> take_gpus() {
    const std::size_t gpus = options_.question.devices.size();
    const std::size_t count = std::max(gpus, static_cast<std::size_t>(options_.ranks));
    if (count % gpus != 0)
      return Error{Error::Kind::bad_input, fmt::format("{} ranks cannot share {} evenly", count, count_of(gpus, "GPU")),
                   fmt::format("--ranks {}", count / gpus * gpus)};
    for (std::size_t i = 0; i < count; ++i) {
      const PlanDevice& gpu = options_.question.devices[i % gpus];
      PlanDevice device = gpu;
      const auto sharing = static_cast<std::int64_t>(count / gpus);
      if (sharing > 1) {
        device.number = static_cast<int>(i);
        device.limit /= sharing;
        device.free /= sharing;
      }
      seats_.push_back({device, gpu});
    }
    if (count > gpus) question_.constants.nccl_communicator = 0;
    return {};
  }

  // A map that names cpu or disk asks for it.
  Result<void> allow_what_the_map_names() {
    auto* written = question_.map ? std::get_if<CustomMap>(&*question_.map) : nullptr;
    if (written == nullptr) return {};
    if (names(*written, "disk") && !question_.disk_limit) question_.disk_limit = plan::unknown_limit;
    if (!names(*written, "cpu")) return {};
    if (!on_cpus()) {
      if (!question_.cpu_limit) question_.cpu_limit = question_.host_memory.value_or(plan::unknown_limit);
      return {};
    }
    if (options_.ranks > 1)
      return Error{Error::Kind::bad_input,
                   fmt::format("the device map names cpu, and there are {} CPU ranks", options_.ranks),
                   fmt::format("write the rank's number instead, 0 to {}", options_.ranks - 1)};
    for (auto& [module, place] : *written)
      if (place == "cpu") place = "0";
    return {};
  }

  // How many devices hold all of it when each is filled in turn.
  std::size_t filled_in_order() const {
    for (std::size_t stages = 1; stages < most_stages(); ++stages) {
      const auto plan = plan::plan_inference(question_of(stages, 1));
      if (plan && plan->fits() && plan->off_gpu.empty()) return stages;
    }
    return most_stages();
  }

  // If some devices can hold all of it alone, the smaller ones take no part.
  void keep_roomy_seats() {
    std::vector<Seat> roomy;
    for (const Seat& seat : seats_) {
      plan::Question alone = question_;
      alone.devices = {seat.device};
      alone.scheme = plan::Scheme::single;
      if (const auto plan = plan::plan_inference(alone); plan && plan->fits()) roomy.push_back(seat);
    }
    if (roomy.empty()) return;
    idle_ += seats_.size() - roomy.size();
    seats_ = std::move(roomy);
  }

  // Whole on each device where that fits; else over as few as it takes.
  Result<Placement> fewest_devices() {
    const auto cpu_limit = std::exchange(question_.cpu_limit, std::nullopt);
    const auto disk_limit = std::exchange(question_.disk_limit, std::nullopt);
    question_.map.reset();
    keep_roomy_seats();
    std::size_t most = most_stages();
    for (std::size_t stages = 1; stages <= most; ++stages) {
      const auto plan = plan::plan_inference(question_of(stages, replicas_with(stages)));
      if (!plan) return plan.error();
      if (!fits_where_used(*plan)) continue;
      if (drop_idle(*plan) == 0) return replicas_of(stages);
      stages = 0;  // devices that cannot hold a layer have been removed now
      most = most_stages();
    }
    question_.cpu_limit = cpu_limit;
    question_.disk_limit = disk_limit;
    return over(may_offload() ? seats_.size() : most, 1);
  }

  std::size_t most_stages() const {
    return std::min(seats_.size(), static_cast<std::size_t>(question_.model->config.layers));
  }
  std::size_t replicas_with(std::size_t stages) const {
    return std::min(seats_.size() / stages, options_.most_replicas.value_or(seats_.size()));
  }
  Result<Placement> replicas_of(std::size_t stages) { return over(stages, replicas_with(stages)); }

  // The question for one replica. The device at each place has the least that any replica has there.
  plan::Question question_of(std::size_t stages, std::size_t replicas) const {
    plan::Question question = question_;
    question.devices.clear();
    for (std::size_t i = 0; i < stages; ++i) question.devices.push_back(seats_[i].device);
    for (std::size_t i = stages; i < stages * replicas; ++i) {
      PlanDevice& least = question.devices[i % stages];
      least.limit = std::min(least.limit, seats_[i].device.limit);
      least.free = std::min(least.free, seats_[i].device.free);
    }
    const bool split = stages > 1 || may_offload();
    if (!question.map) question.scheme = split ? plan::Scheme::layer_split : plan::Scheme::single;
    return question;
  }

  Result<Placement> over(std::size_t stages, std::size_t replicas) {
    auto made = plan::make_plan(question_of(stages, replicas));
    if (!made) return made.error();
    // Without those the others need less: fewer steps are in flight.
    if (const std::size_t dropped = drop_idle(*made); dropped > 0) return over(stages - dropped, 1);
    Placement placement;
    placement.plan = std::move(*made);
    plan::Plan& plan = placement.plan;
    explain(plan, replicas);
    read_offload(placement);
    repeat(plan, replicas);
    if (plan.ranks.size() > replicas)
      for (const RankPlan& rank : std::span(plan.ranks).first(plan.ranks.size() / replicas))
        placement.stages.push_back({static_cast<std::int64_t>(rank.layers->first_block),
                                    static_cast<std::int64_t>(rank.layers->end_block) - 1});
    return placement;
  }

  static bool is_idle(const RankPlan& rank) {
    return rank.layers && rank.layers->first_block == rank.layers->end_block;
  }
  static bool fits_where_used(const plan::Plan& plan) {
    return std::ranges::all_of(plan.ranks, [](const RankPlan& rank) { return is_idle(rank) || rank.fits(); });
  }

  // Devices that a split of the first seats left empty take no part. Returns how many there are.
  std::size_t drop_idle(const plan::Plan& plan) {
    std::size_t dropped = 0;
    for (std::size_t i = plan.ranks.size(); i-- > 0;) {
      if (!is_idle(plan.ranks[i])) continue;
      seats_.erase(seats_.begin() + static_cast<std::ptrdiff_t>(i));
      ++dropped;
    }
    idle_ += dropped;
    return dropped;
  }

  void explain(plan::Plan& plan, std::size_t replicas) {
    const std::size_t stages = plan.ranks.size();
    const std::string_view device = on_cpus() ? "CPU rank" : "GPU";
    plan.reasons.front() =
        stages > 1 ? fmt::format("split by layers over {}, {}", count_of(stages, device), count_of(replicas, "replica"))
        : replicas == 1 ? fmt::format("the whole model on one {}", device)
                        : fmt::format("{} {}s, each with the whole model and prompts of its own{}", replicas, device,
                                      on_cpus() ? "; they share cores and memory" : "");
    idle_ += seats_.size() - stages * replicas;
    if (idle_ > 0) plan.reasons.push_back(fmt::format("{} without a part in it", count_of(idle_, device)));
    plan.effective_batch = plan.workload.micro_batch * static_cast<std::int64_t>(replicas);
  }

  // The ranks of the other replicas, and all of them on their own devices.
  void repeat(plan::Plan& plan, std::size_t replicas) {
    const std::vector<RankPlan> first = plan.ranks;
    plan.ranks.clear();
    for (std::size_t i = 0; i < first.size() * replicas; ++i) {
      RankPlan rank = first[i % first.size()];
      rank.rank = static_cast<int>(i);
      rank.gpu = seats_[i].gpu;
      if (plan.off_gpu.empty()) rank.limit = seats_[i].device.limit;
      plan.ranks.push_back(std::move(rank));
    }
    plan.layout.world = std::ssize(plan.ranks);
    // The refusal may have been for a device without a part.
    auto refusal = plan::refusal_of(plan, question_.host_memory);
    if (refusal && plan.refusal) refusal->remedies = std::move(plan.refusal->remedies);
    plan.refusal = std::move(refusal);
  }

  void read_offload(Placement& placement) const {
    const plan::Plan& plan = placement.plan;
    if (plan.off_gpu.empty() || !plan.map) return;
    std::int64_t layer = 0;
    for (const auto& [path, role] : units()) {
      const auto place = plan.map->find(path);
      const bool block = role == UnitRole::block;
      const std::int64_t number = block ? layer++ : 0;
      if (!place || place->kind == plan::Place::Kind::gpu) continue;
      wire::Offload& offload = *place == plan::on_cpu() ? placement.in_host_memory : placement.on_disk;
      if (block) offload.layers.push_back(number);
      if (role == UnitRole::before_blocks) offload.embedding = true;
      if (role == UnitRole::after_blocks) offload.head = true;
    }
    for (const auto& [offload, where] :
         {std::pair{&placement.in_host_memory, "in host memory"}, std::pair{&placement.on_disk, "on disk"}})
      if (!offload->empty()) placement.plan.reasons.push_back(offload_reason(*offload, where));
  }

  static std::string offload_reason(const wire::Offload& offload, std::string_view where) {
    std::vector<std::string> parts;
    if (offload.embedding) parts.emplace_back("the embedding");
    if (!offload.layers.empty()) parts.push_back(count_of(offload.layers.size(), "layer"));
    if (offload.head) parts.emplace_back("the head");
    return fmt::format("{} stay{} {}, as asked, and come{} to the device for each pass", join(parts, ", "),
                       parts.size() + offload.layers.size() > 2 ? "" : "s", where,
                       parts.size() + offload.layers.size() > 2 ? "" : "s");
  }

  std::vector<std::pair<std::string, UnitRole>> units() const {
    const spec::ModelShape& shape = question_.model->shape;
    const plan::SplitUnits split = plan::split_units(shape, std::vector<std::int64_t>(shape.tensors.size()));
    std::vector<std::pair<std::string, UnitRole>> list;
    for (std::size_t i = 0; i < split.units.size(); ++i) list.emplace_back(split.units[i].path, split.roles[i]);
    return list;
  }

  // A map as written: the devices it names, in the order in which it needs them.
  Result<Placement> by_hand() {
    const auto& written = std::get<CustomMap>(*question_.map);
    const plan::Question asked = question_of(seats_.size(), 1);
    std::vector<plan::Budget> budgets;
    for (const PlanDevice& device : asked.devices) budgets.push_back({plan::on_gpu(device.number), {}});
    if (question_.cpu_limit) budgets.push_back({plan::on_cpu(), {}});
    if (question_.disk_limit) budgets.push_back({plan::on_disk(), {}});
    const auto map = plan::custom_map(question_.model->shape, {written.begin(), written.end()}, budgets);
    if (!map) return map.error();
    const auto order = order_of(*map);
    if (!order) return order.error();
    std::vector<Seat> seats;
    for (const int number : *order)
      seats.push_back(*std::ranges::find(seats_, number, [](const Seat& seat) { return seat.device.number; }));
    if (seats.empty()) seats.push_back(seats_.front());  // everything lies on cpu or disk
    idle_ += seats_.size() - seats.size();
    seats_ = std::move(seats);
    return over(seats_.size(), 1);
  }

  // The devices of a map in the order of layers, or why a row of ranks cannot carry it out.
  Result<std::vector<int>> order_of(const plan::DeviceMap& map) const {
    std::vector<int> order;
    std::optional<std::string> last;
    UnitRole last_role = UnitRole::before_blocks;
    for (const auto& [path, role] : units()) {
      for (const auto& [key, place] : map.entries)
        if (key.starts_with(path + ".") && role == UnitRole::block)
          return refused(fmt::format("the device map splits {}: it names {}", path, key),
                         fmt::format("a layer stays whole: \"{}\": {}", path, to_string(place)));
      const auto place = map.find(path);
      if (!place || place->kind != plan::Place::Kind::gpu) continue;
      const bool stays = !order.empty() && order.back() == place->gpu;
      if (!stays && std::ranges::find(order, place->gpu) != order.end())
        return refused(fmt::format("the device map comes back to {} with {}, after {}", place->gpu, path, *last),
                       "each device holds layers that follow one another");
      if (!stays && !order.empty() && (role == UnitRole::after_blocks || last_role == UnitRole::before_blocks))
        return refused(fmt::format("the device map puts {} and {} on different devices", *last, path),
                       "the embedding goes where the first layer is, the last norm and the head where the last one is");
      if (!stays) order.push_back(place->gpu);
      last = path;
      last_role = role;
    }
    return order;
  }

  static Error refused(std::string what, std::string remedy) {
    return {Error::Kind::bad_input, std::move(what), std::move(remedy)};
  }

  const PlacementOptions& options_;
  plan::Question question_;
  std::vector<Seat> seats_;
  std::size_t idle_ = 0;
};

}  // namespace

Result<Placement> place_model(const PlacementOptions& options) { return Placing(options).place(); }

Result<Placement> place_batch(PlacementOptions& options, std::int64_t usual, bool is_whole) {
  for (std::int64_t batch = usual;; batch /= 2) {
    options.question.micro_batch = batch;
    auto placed = place_model(options);
    if (!placed || batch == 1 || (placed->plan.fits() && (!is_whole || placed->stages.empty()))) return placed;
  }
}

}  // namespace muster::job
